module compose_project

go 1.25.0

// In the versions that Docker Compose v5.6.0 has.
require (
	github.com/compose-spec/compose-go/v2 v2.16.1
	github.com/distribution/reference v0.6.0
	github.com/docker/go-connections v0.8.1
	github.com/go-viper/mapstructure/v2 v2.5.0
	github.com/mattn/go-shellwords v1.0.15
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	go.yaml.in/yaml/v4 v4.0.0-rc.6
)
