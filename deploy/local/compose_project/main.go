// Prints, as JSON, the project that Docker Compose makes of its files: what `docker compose --profile "*"
// --all-resources config --format json` prints, by the library that Docker Compose itself reads projects with, in
// the order of its options. The library compiles in seconds, and the whole of Docker Compose in minutes.
//
// Arguments: the project's files, as after `-f`; without any, those that Compose finds in the working directory.
// Exit status 1, with the reason on standard error, where Compose refuses the project.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	project, err := project(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(string(project))
}

func project(files []string) ([]byte, error) {
	options, err := cli.NewProjectOptions(files,
		cli.WithDefaultProfiles("*"),
		cli.WithDiscardEnvFile,
		cli.WithOsEnv,
		cli.WithEnvFiles(),
		cli.WithDotEnv,
		cli.WithConfigFileEnv,
		cli.WithDefaultConfigPath,
		// A project directory may have been found by now: its .env file is read too.
		cli.WithEnvFiles(),
		cli.WithDotEnv,
		cli.WithDefaultProfiles("*"),
	)
	if err != nil {
		return nil, err
	}
	loaded, err := options.LoadProject(context.Background())
	if err != nil {
		return nil, err
	}
	if loaded.Name == "" {
		return nil, errors.New("the project has no name")
	}
	loaded, err = loaded.WithServicesEnvironmentResolved(true)
	if err != nil {
		return nil, err
	}
	if err := loaded.CheckContainerNameUnicity(); err != nil {
		return nil, err
	}
	return loaded.MarshalJSON()
}
