"""All rules of the house: what each is called, how bad it is that it does not hold, and what to do then.

A rule tells only what the declarations that were read settle. What they leave open, such as what an image, a
chart or a person does, it does not guess. Files that are not in force count for nothing
(``RuleHouse.in_force``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from taboot_pipelines.knowledge.drift.facts import DriftKind
from taboot_pipelines.model.rules import Severity
from taboot_pipelines.retrieval.rules import files, routes, services


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule. ``summary``: what holds where it is kept; ``reads``: relations of the graph, or ``settings`` of
    files."""

    name: str
    severity: Severity
    summary: str
    remedy: str
    reads: tuple[str, ...]
    find: services.Find


_ERROR, _WARNING, _INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
_SETTINGS = ("settings",)
_IMAGES = ("BUILDS",)
_ROUTES = ("ROUTES_TO", "EXPOSES_ENDPOINT")

_ALL = (
    # --- Images and what else is fetched
    Rule(
        "image-without-version",
        _WARNING,
        "Every image that is run names a version that is not `latest`, or a digest.",
        "Name the version that runs now; let Renovate or the like raise it.",
        _IMAGES,
        services.image_without_version,
    ),
    Rule(
        "image-of-moving-tag",
        _INFO,
        "No image is run by a tag that moves, such as `stable`, `main` or `alpine`.",
        "Name a version, or add the digest.",
        _IMAGES,
        services.image_of_moving_tag,
    ),
    Rule(
        "base-without-version",
        _WARNING,
        "Every image that something is built from names a version.",
        "Name a version in the FROM line.",
        _IMAGES,
        services.base_without_version,
    ),
    Rule(
        "image-of-two-versions",
        _INFO,
        "One image runs as one version in the whole house.",
        "Raise the older one, or silence it where the two must differ.",
        _IMAGES,
        services.image_of_two_versions,
    ),
    Rule(
        "reference-that-moves",
        _WARNING,
        "What is fetched from a repository is fetched at a tag or a commit.",
        "Add `?ref=` with a tag or a commit.",
        _SETTINGS,
        files.reference_that_moves,
    ),
    Rule(
        "action-that-moves",
        _WARNING,
        "Workflows use actions by a version, not by a branch.",
        "Use a tag or a commit.",
        _SETTINGS,
        files.action_that_moves,
    ),
    Rule(
        "chart-that-moves",
        _WARNING,
        "Every chart is of one version.",
        "Name the version that runs now.",
        _SETTINGS,
        files.chart_that_moves,
    ),
    # --- Restart and health
    Rule(
        "no-restart-policy",
        _WARNING,
        "Every service of Compose that runs on says when it starts again.",
        "`restart: unless-stopped`, or `restart: 'no'` where it is meant so.",
        _SETTINGS,
        services.compose_without_restart,
    ),
    Rule(
        "unit-without-restart",
        _WARNING,
        "Every unit and quadlet that runs on says when it starts again.",
        "`Restart=on-failure` in [Service].",
        _SETTINGS,
        services.unit_without_restart,
    ),
    Rule(
        "healthy-without-check",
        _WARNING,
        "What others wait for to be healthy has a health check.",
        "Declare a `healthcheck` there, or wait for `service_started`.",
        ("DEPENDS_ON", "settings"),
        services.healthy_without_check,
    ),
    Rule(
        "store-without-check",
        _INFO,
        "Databases, caches and brokers that others need have a health check.",
        "Declare a `healthcheck`, and wait with `condition: service_healthy`.",
        ("DEPENDS_ON", "settings"),
        services.store_without_check,
    ),
    Rule(
        "waits-for-start-only",
        _INFO,
        "Who depends on a service that has a health check waits for it.",
        "`condition: service_healthy`.",
        ("DEPENDS_ON", "settings"),
        services.waits_for_start_only,
    ),
    Rule(
        "health-check-off",
        _INFO,
        "No health check is switched off.",
        "Mend the check instead.",
        _SETTINGS,
        services.setting(
            ("healthcheck.disable", "healthcheck.test"),
            r"disable=true$|test=\[?\"?NONE\b",
            "Its health check is switched off.",
        ),
    ),
    Rule(
        "workload-without-probe",
        _INFO,
        "Every Deployment, StatefulSet and DaemonSet has a probe.",
        "Declare a `readinessProbe`.",
        _SETTINGS,
        services.workload_without("healthcheck", "a probe"),
    ),
    Rule(
        "workload-without-limit",
        _INFO,
        "Every Deployment, StatefulSet and DaemonSet has a limit of memory.",
        "Set `resources.limits.memory`.",
        _SETTINGS,
        services.workload_without("deploy.resources.limits.memory", "a limit of memory"),
    ),
    # --- Rights
    Rule(
        "privileged",
        _WARNING,
        "No container is privileged.",
        "Give the capabilities and devices that it needs.",
        _SETTINGS,
        services.setting(
            ("privileged",), r"=true$", "It is privileged: it may do what root of its host may."
        ),
    ),
    Rule(
        "container-socket",
        _WARNING,
        "No container but a proxy for it has the socket of Docker or Podman.",
        "Put a socket proxy between; `:ro` does not limit what is asked through it.",
        _SETTINGS,
        services.socket_mounted,
    ),
    Rule(
        "socket-published",
        _ERROR,
        "No container that has the socket publishes the port of Docker's interface.",
        "Leave the port out: services reach a socket proxy by a network of their own.",
        (*_SETTINGS, "BINDS"),
        services.socket_published,
    ),
    Rule(
        "strong-capability",
        _WARNING,
        "No container is given a capability by which it can leave itself.",
        "Drop it, or give the device or the setting that it is needed for.",
        _SETTINGS,
        services.setting(
            ("cap_add",),
            r"=(?:CAP_)?(?:ALL|SYS_ADMIN|SYS_MODULE|SYS_RAWIO|SYS_PTRACE|DAC_READ_SEARCH|BPF|SYS_BOOT)$",
            "It is given {value}.",
        ),
    ),
    Rule(
        "host-network",
        _INFO,
        "No container uses the network of its host.",
        "Publish the ports that are needed.",
        _SETTINGS,
        services.setting(
            ("network_mode", "networks"), r"(?:mode|networks)=host$", "It uses its host's network."
        ),
    ),
    Rule(
        "host-namespace",
        _WARNING,
        "No container sees the processes, or uses the memory or users, of its host.",
        "Leave `pid`, `ipc` and `userns_mode` out.",
        _SETTINGS,
        services.setting(("pid", "ipc", "userns_mode"), r"=host$", "It shares the {key} of its host."),
    ),
    Rule(
        "root-user",
        _INFO,
        "No container is told to run as root.",
        "Give it a user of its own.",
        _SETTINGS,
        services.setting(
            ("user", "environment.PUID"),
            r"^user=['\"]?(?:root|0)(?::|['\"]?$)|PUID=0$",
            "It is told to run as root, by {key}.",
        ),
    ),
    Rule(
        "confinement-off",
        _WARNING,
        "No container runs without seccomp, AppArmor or SELinux.",
        "Leave it out, or write a profile.",
        _SETTINGS,
        services.setting(
            ("security_opt", "Container.SecurityLabelDisable", "Container.SeccompProfile"),
            r"unconfined|label[:=]disable|LabelDisable=true|no-new-privileges[:=]false",
            "{key} is {value}.",
        ),
    ),
    Rule(
        "system-mounted",
        _WARNING,
        "No container may write the system folders of its host.",
        "Mount them `:ro`, or only what is needed of them.",
        _SETTINGS,
        services.system_mounted,
    ),
    Rule(
        "host-path",
        _INFO,
        "No workload keeps its data on the node that it happens to run on.",
        "Claim a volume, or pin the workload to the node.",
        _SETTINGS,
        services.workload_on_host_path,
    ),
    Rule(
        "escalation-allowed",
        _WARNING,
        "No container of a pod may gain rights.",
        "`allowPrivilegeEscalation: false`.",
        _SETTINGS,
        files.escalation_allowed,
    ),
    Rule(
        "cluster-admin",
        _WARNING,
        "Nothing is bound to the role cluster-admin.",
        "Write a role with what is needed.",
        _SETTINGS,
        files.cluster_admin,
    ),
    # --- Secrets and logins
    Rule(
        "secret-in-plain",
        _ERROR,
        "No declaration holds a secret in plain text.",
        "Move it to a secret or to an env file that is not kept in the repository, and change it.",
        _SETTINGS,
        services.secret_in_plain,
    ),
    Rule(
        "secret-in-manifest",
        _ERROR,
        "No manifest holds an unencrypted Secret.",
        "Encrypt it (SOPS, Sealed Secrets) or let an operator fetch it, and change it.",
        _SETTINGS,
        files.secret_in_manifest,
    ),
    Rule(
        "login-switched-off",
        _ERROR,
        "No service has its login switched off.",
        "Switch it on, or silence it where only a proxy with a login leads there.",
        _SETTINGS,
        services.setting(
            ("environment", "command"),
            r"environment\.(?:GF_AUTH_ANONYMOUS_ENABLED=true|POSTGRES_HOST_AUTH_METHOD=trust"
            r"|(?:MYSQL|MARIADB)_ALLOW_EMPTY_(?:ROOT_)?PASSWORD=(?:yes|true|1)"
            r"|ALLOW_EMPTY_PASSWORD=(?:yes|true|1)"
            r"|ALLOW_ANONYMOUS_LOGIN=(?:yes|true)|xpack\.security\.enabled=false|WEBUI_AUTH=false"
            r"|INFLUXDB_HTTP_AUTH_ENABLED=false|(?:DISABLE|NO)_AUTH(?:ENTICATION)?=(?:true|1|yes))$"
            r"|^command\S*?--(?:protected-mode=no|auth=none|no-auth=?)$",
            "{key} is {value}: no login is asked for.",
        ),
    ),
    Rule(
        "route-without-login",
        _WARNING,
        "Every route asks for a login at the proxy.",
        "Add Authelia, Authentik or basic auth, or silence it where the service asks itself.",
        _ROUTES,
        routes.route_without_login,
    ),
    Rule(
        "login-passed-by",
        _WARNING,
        "What a proxy asks a login for cannot be reached past it.",
        "Publish the port on 127.0.0.1, or not at all.",
        (*_ROUTES, "BINDS"),
        routes.login_passed_by,
    ),
    Rule(
        "dashboard-open",
        _ERROR,
        "Traefik's API and dashboard are not served without a login.",
        "`api.insecure: false`, and a router with a login.",
        _SETTINGS,
        files.dashboard_open,
    ),
    Rule(
        "tailnet-open",
        _WARNING,
        "The tailnet's policy does not let everyone reach everything.",
        "Write rules for who needs what.",
        _SETTINGS,
        routes.tailnet_open,
    ),
    # --- Ways in
    Rule(
        "store-published",
        _WARNING,
        "No database, cache or broker is published beyond its host.",
        "Leave the port out, or publish it on 127.0.0.1.",
        ("BINDS", "BUILDS"),
        routes.store_published,
    ),
    Rule(
        "port-taken-twice",
        _ERROR,
        "Each port of a host is published by one service.",
        "Give one of them another port.",
        ("BINDS",),
        routes.drift(DriftKind.PORT_TWICE),
    ),
    Rule(
        "dangling-route",
        _ERROR,
        "Every route leads to what something declares.",
        "Mend the name, or delete the route.",
        ("ROUTES_TO",),
        routes.drift(DriftKind.MISSING_UPSTREAM),
    ),
    Rule(
        "route-to-wrong-port",
        _ERROR,
        "Every route leads to a port on which its target answers.",
        "Mend the port.",
        ("ROUTES_TO", "BINDS", "EXPOSES_ENDPOINT"),
        routes.drift(DriftKind.ROUTE_PORT),
    ),
    Rule(
        "route-twice",
        _WARNING,
        "One host name and path leads to one target.",
        "Delete one of the routes.",
        ("ROUTES_TO",),
        routes.routed_twice,
    ),
    Rule(
        "router-not-taken",
        _ERROR,
        "Traefik takes each container whose labels have a router.",
        "Set the label `traefik.enable=true`.",
        ("ROUTES_TO", "settings"),
        routes.router_not_taken,
    ),
    Rule(
        "network-of-no-name",
        _ERROR,
        "The network by which Traefik shall reach a container is one that there is.",
        "Mend `traefik.docker.network`: the name of the network with the project before it.",
        ("RUNS_IN", "settings"),
        routes.network_of_no_name,
    ),
    Rule(
        "route-without-tls",
        _WARNING,
        "Every route of nginx and Caddy is served with TLS.",
        "Listen with `ssl`, and redirect from port 80.",
        ("ROUTES_TO",),
        routes.route_without_tls,
    ),
    Rule(
        "certificate-without-host",
        _ERROR,
        "The certificates of an Ingress cover the names that it answers to.",
        "Add the name to `tls.hosts`.",
        _SETTINGS,
        routes.certificate_without_host,
    ),
    Rule(
        "tls-not-verified",
        _WARNING,
        "Nothing connects by TLS without looking at the certificate.",
        "Trust the certificate's issuer instead.",
        _SETTINGS,
        files.value(
            r"(?:tls_)?insecure_skip_verify|insecureSkipVerify|skip_tls_verify|skipTLSVerify",
            "true",
            "{key} is true: whoever answers is believed.",
        ),
    ),
    Rule(
        "tls-outdated",
        _WARNING,
        "No server speaks TLS 1.1 or older.",
        "`ssl_protocols TLSv1.2 TLSv1.3;`.",
        _SETTINGS,
        files.value(
            "ssl_protocols|minVersion",
            r"(?:.*\s)?(?:SSLv[23]|TLSv1(?:\.[01])?)(?:\s.*)?|VersionTLS1[01]",
            "{key} allows {value}.",
        ),
    ),
    Rule(
        "name-with-two-addresses",
        _WARNING,
        "Hosts files give a name one address.",
        "Delete the older line.",
        ("RESOLVES_TO",),
        routes.name_with_two_addresses,
    ),
    Rule(
        "exit-node",
        _INFO,
        "No container offers to be an exit node.",
        "Silence it where it is meant so.",
        _SETTINGS,
        routes.exit_node,
    ),
    # --- What does not fit together
    Rule(
        "container-name-twice",
        _ERROR,
        "Each container's name is given once on a host.",
        "Leave `container_name` out of one.",
        _SETTINGS,
        services.container_named_twice,
    ),
    Rule(
        "address-twice",
        _ERROR,
        "Each fixed address is given once on a host.",
        "Give one of them another address.",
        _SETTINGS,
        services.address_given_twice,
    ),
    Rule(
        "needs-the-undeclared",
        _ERROR,
        "Every dependency is a service of the project.",
        "Mend the name, or delete the dependency.",
        ("DEPENDS_ON",),
        services.needs_the_undeclared,
    ),
    Rule(
        "dependency-cycle",
        _ERROR,
        "No services of Compose wait for each other.",
        "Delete one of the dependencies.",
        ("DEPENDS_ON",),
        services.dependency_cycle,
    ),
    Rule(
        "variable-unset",
        _INFO,
        "Every variable of a Compose file has a value or a default.",
        "Set it in `.env`, or write `${NAME:-default}`.",
        _SETTINGS,
        services.variable_unset,
    ),
    Rule(
        "unused-volume",
        _INFO,
        "Every volume that a Compose file declares is mounted.",
        "Delete it, and the volume with `docker volume rm` once its data is not needed.",
        _SETTINGS,
        services.unused("volumes"),
    ),
    Rule(
        "unused-network",
        _INFO,
        "Every network that a Compose file declares is used.",
        "Delete it.",
        (*_SETTINGS, "RUNS_IN"),
        services.unused("networks"),
    ),
    Rule(
        "scraped-and-undeclared",
        _WARNING,
        "Prometheus asks what something declares.",
        "Delete the target, or mend its name.",
        ("CONNECTS_TO",),
        routes.scraped_and_undeclared,
    ),
    Rule(
        "alert-on-unknown-job",
        _WARNING,
        "Rules of Prometheus ask for jobs that are scraped.",
        "Mend the job's name: such an alert never fires, or always.",
        _SETTINGS,
        routes.alert_on_unknown_job,
    ),
    # --- What is lost or stands still
    Rule(
        "volume-without-backup",
        _WARNING,
        "A backup of the house names the volume of every database.",
        "Add it to the backup.",
        _SETTINGS,
        services.volume_without_backup,
    ),
    Rule(
        "single-point-of-failure",
        _INFO,
        "Fewer than five services use one that runs once.",
        "Know how to restore it first; `taboot query impact` lists what needs it.",
        ("DEPENDS_ON", "CONNECTS_TO"),
        services.single_point_of_failure,
    ),
)

#: Every rule by its name.
RULES: Mapping[str, Rule] = {rule.name: rule for rule in _ALL}
