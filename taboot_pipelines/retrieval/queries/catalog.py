"""All typed queries: what each is called, what it is asked with and what its rows hold.

A query is *closed* where the declarations that it reads hold all that there is: a service's ports, networks,
image and dependencies stand in the file that declares it, so that there is no row is an answer. What comes
from elsewhere (who routes to it, which name it has) is open, and that there is no row is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from taboot_pipelines.retrieval.queries import dependencies, routes, services, settings
from taboot_pipelines.retrieval.queries.house import Arguments, House, Row
from taboot_pipelines.retrieval.results.queries import QueryParameter


@dataclass(frozen=True, slots=True)
class Sentence:
    """How rows are said: those of one ``subject`` together, as subject, verb and a list of objects, each with
    its ``details`` in brackets. Names in braces are columns."""

    subject: str
    verb: str
    objects: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """A typed query. ``reads``: the relations of the graph, or ``settings`` of files; ``answers``: the types
    of questions that it answers (``answering.question_types``), whose wordings are its examples; ``none``:
    what is said where it has no row; ``field``: of a declaration that says it, which variables may leave
    open; ``doubts``: each says of what else it is not known whether it is a row, or nothing."""

    name: str
    summary: str
    parameters: tuple[QueryParameter, ...]
    columns: tuple[str, ...]
    reads: tuple[str, ...]
    run: Callable[[House, Arguments], Iterator[Row]]
    sentence: Sentence
    none: str
    closed: bool = True
    answers: tuple[str, ...] = ()
    field: str = ""
    doubts: tuple[Callable[[House, Arguments], str], ...] = (
        settings.charts_in_doubt,
        settings.operators_in_doubt,
    )


def _parameter(name: str, kind: str, required: bool = False) -> QueryParameter:
    return QueryParameter(name=name, kind=kind, required=required)


_SERVICE, _PROJECT, _HOST = (_parameter(n, n) for n in ("service", "project", "host"))
_ONE = _parameter("service", "service", required=True)
_OTHER = _parameter("other", "service", required=True)
_TRANSITIVE = _parameter("transitive", "flag")
_KEY = _parameter("key", "text", required=True)
_VALUE = _parameter("value", "text")
_WITHIN = (_PROJECT, _HOST)
_OF_ANY, _OF_ONE = (_SERVICE, *_WITHIN), (_ONE, *_WITHIN)
_BOTH = ("service", "project")
_SETTING = (*_BOTH, "key", "value")
_ROUTE = (
    "hostname",
    "path",
    "proxy",
    "tls",
    "login",
    "target",
    "target_project",
    "target_port",
    "scheme",
    "allowed",
)

_ALL = (
    # --- Ports
    Query(
        "published_ports",
        "The ports that services publish, of one, of a project, or of all.",
        (*_OF_ANY, _parameter("port", "port")),
        (*_BOTH, "port", "protocol", "container_port", "address"),
        ("BINDS",),
        services.published_ports,
        Sentence("{service}", "publishes", "{port}:{container_port}/{protocol}", ("address",)),
        "publishes no port",
        answers=("port_of", "service_on_port", "services_publishing"),
        field="ports",
    ),
    Query(
        "services_without_published_ports",
        "The services that publish no port.",
        _WITHIN,
        _BOTH,
        ("BINDS",),
        services.services_without_published_ports,
        Sentence("", "publish no port:", "{service}"),
        "no service without a published port is declared",
        answers=("lacking",),
        field="ports",
    ),
    Query(
        "port_conflicts",
        "Ports that two services publish on one address of one host.",
        (),
        ("conflict", "statement"),
        ("BINDS",),
        services.port_conflicts,
        Sentence("", "", "{statement}"),
        "no port of one machine is published twice; what a source without `host` has counts as one machine",
        answers=("port_conflicts",),
    ),
    # --- Images
    Query(
        "images",
        "The images that services run or are built from, with tag and digest.",
        (*_OF_ANY, _parameter("image", "image")),
        (*_BOTH, "image", "tag", "digest", "how"),
        ("BUILDS",),
        services.images,
        Sentence("{service}", "uses", "{image}", ("how",)),
        "no image is declared",
        answers=("image_of", "version_of", "services_using_image"),
        field="image",
    ),
    Query(
        "unpinned_images",
        "The services whose image names no version, or only `latest`.",
        _OF_ANY,
        (*_BOTH, "image", "tag", "digest", "how"),
        ("BUILDS",),
        services.unpinned_images,
        Sentence("", "name no version:", "{service}", ("image",)),
        "no image without a version is declared",
        answers=("lacking",),
    ),
    # --- Settings
    Query(
        "settings",
        "The settings of configuration files: by key, by value, of a service, of a file.",
        (*_OF_ANY, _parameter("key", "text"), _VALUE, _parameter("file", "text")),
        ("service", "file", "key", "value"),
        ("settings",),
        settings.settings,
        Sentence("{file}", "sets", "{key} to {value}", ("service",)),
        "no such setting stands in the files that are read",
        closed=False,
        answers=("setting_value",),
    ),
    Query(
        "services_with",
        "The services that have a setting, with a value if one is named.",
        (_KEY, _VALUE, *_OF_ANY),
        _SETTING,
        ("settings",),
        settings.services_with,
        Sentence("", "have it:", "{service}", ("value",)),
        "no service has it",
        answers=("setting_value",),
        doubts=(settings.settings_in_doubt, settings.operators_in_doubt),
    ),
    Query(
        "services_without",
        "The services that lack a setting, of those whose declaration is known whole.",
        (_KEY, _VALUE, *_OF_ANY),
        _BOTH,
        ("settings",),
        settings.services_without,
        Sentence("", "lack it:", "{service}"),
        "no service without it is declared",
        answers=("lacking",),
        doubts=(settings.settings_in_doubt, settings.operators_in_doubt),
    ),
    Query(
        "values_counted",
        "How many services have each value of a setting.",
        (_KEY, *_OF_ANY),
        ("value", "services", "names"),
        ("settings",),
        settings.values_counted,
        Sentence("{value}", "is set by", "{services}", ("names",)),
        "no service has it",
    ),
    Query(
        "ranked",
        "The services by the amount of a setting, the most first: memory, times, numbers.",
        (_KEY, *_OF_ANY),
        _SETTING,
        ("settings",),
        settings.ranked,
        Sentence("", "from most to least:", "{service}", ("value",)),
        "no service has an amount there",
    ),
    *(
        Query(
            name,
            summary,
            _OF_ANY,
            _SETTING,
            ("settings",),
            settings.schedules if keys is settings.SCHEDULE else settings.of_services(keys),
            Sentence("{service}", "has", "{key} {value}"),
            "no such setting is declared",
            answers=(answers,) if answers else (),
        )
        for name, summary, keys, answers in (
            ("volumes", "What services mount.", settings.VOLUMES, "volumes_of"),
            ("environment", "The environment variables of services.", settings.ENVIRONMENT, ""),
            ("health_checks", "How health is checked.", settings.HEALTH_CHECK, "healthcheck_of"),
            ("restart_policies", "When services start again.", settings.RESTART_POLICY, "restart_policy_of"),
            ("limits", "The memory and processors that services may use.", settings.LIMITS, "limits_of"),
            ("users", "As whom services run.", settings.USER, ""),
            ("schedules", "When services do their work.", settings.SCHEDULE, "schedule_of"),
        )
    ),
    Query(
        "mounters",
        "The services that mount a path of the machine or of the container, or something below it.",
        (_parameter("path", "text", required=True), *_WITHIN),
        (*_BOTH, "source", "target"),
        ("settings",),
        settings.mounters,
        Sentence("{service}", "mounts", "{source} at {target}"),
        "no service mounts it",
        answers=("mounters_of",),
    ),
    # --- Needs
    Query(
        "dependencies",
        "What services are declared to need or to start after.",
        (*_OF_ANY, _TRANSITIVE),
        (*_BOTH, "needs", "needs_project", "kind", "condition", "through"),
        ("DEPENDS_ON",),
        dependencies.dependencies,
        Sentence("{service}", "depends on", "{needs}", ("kind", "condition")),
        "declares no dependency",
        answers=("dependencies_of", "yesno_dependency"),
    ),
    Query(
        "dependents",
        "What is declared to need a service or to start after it.",
        (*_OF_ONE, _TRANSITIVE),
        (*_BOTH, "dependent", "dependent_project", "kind", "condition", "through"),
        ("DEPENDS_ON",),
        dependencies.dependents,
        Sentence("{dependent}", "depends on", "{service}", ("kind", "condition")),
        "no dependency on it is declared",
        closed=False,
        answers=("dependents_of",),
    ),
    Query(
        "shared_services",
        "What two services both connect to or need, such as one database.",
        (_ONE, _OTHER, *_WITHIN),
        (*_BOTH, "other", "other_project", "shared", "shared_project"),
        ("CONNECTS_TO", "DEPENDS_ON"),
        dependencies.shared_services,
        Sentence("{service} and {other}", "both use", "{shared}"),
        "they use nothing together",
        answers=("shared_services",),
    ),
    Query(
        "impact",
        "What fails without a service: what needs it, connects to it, is reached or logged in through it.",
        (*_OF_ONE, _TRANSITIVE),
        (*_BOTH, "affected", "affected_project", "how", "at", "through"),
        ("DEPENDS_ON", "CONNECTS_TO", "ROUTES_TO"),
        dependencies.impact,
        Sentence("{affected}", "", "{how}"),
        "nothing is declared to need it",
        closed=False,
        answers=("impact_of",),
    ),
    Query(
        "sharers",
        "What shares the host, a network, a volume or the image of a service.",
        _OF_ONE,
        (*_BOTH, "other", "other_project", "shares", "what"),
        ("RUNS", "RUNS_IN", "BUILDS", "settings"),
        dependencies.sharers,
        Sentence("{other}", "shares", "{what}", ("shares",)),
        "nothing is declared to share its host, a network, a volume or its image",
    ),
    Query(
        "connections",
        "What services connect to by their own settings.",
        _OF_ANY,
        (*_BOTH, "to", "to_project", "protocol"),
        ("CONNECTS_TO",),
        dependencies.connections,
        Sentence("{service}", "connects to", "{to}", ("protocol",)),
        "no connection is named in its settings",
        closed=False,
        answers=("connections_of", "store_of"),
    ),
    Query(
        "consumers",
        "What uses a database, a cache or a broker: what connects to it or needs it.",
        _OF_ONE,
        (*_BOTH, "consumer", "consumer_project", "how"),
        ("CONNECTS_TO", "DEPENDS_ON"),
        dependencies.consumers,
        Sentence("{consumer}", "uses", "{service}", ("how",)),
        "no use of it is declared",
        closed=False,
        answers=("consumers_of_store",),
    ),
    Query(
        "most_needed",
        "The services that others need or connect to, those with the most first.",
        _WITHIN,
        (*_BOTH, "dependents"),
        ("DEPENDS_ON", "CONNECTS_TO"),
        dependencies.most_needed,
        Sentence("{service}", "is needed by", "{dependents}"),
        "no service needs another",
    ),
    # --- Ways in
    Query(
        "routes",
        "Host name, proxy and target of routes: to a service, at a host name, of a proxy, or all.",
        (*_OF_ANY, _parameter("hostname", "text"), _parameter("proxy", "proxy")),
        _ROUTE,
        ("ROUTES_TO", "EXPOSES_ENDPOINT"),
        routes.routes,
        Sentence(
            "{proxy}", "leads", "{hostname}{path} to {target}:{target_port}", ("scheme", "login", "allowed")
        ),
        "no route to it is declared",
        closed=False,
        answers=(
            "hostname_of",
            "route_to",
            "services_behind_proxy",
            "hostnames_of_proxy",
            "auth_of",
            "tls_of",
        ),
    ),
    Query(
        "behind",
        "All that stands behind a host name: proxy, service, container, image, machine.",
        (_parameter("hostname", "text", required=True),),
        (
            "hostname",
            "path",
            "proxy",
            "target",
            "target_project",
            "target_port",
            "container",
            "image",
            "host",
        ),
        ("ROUTES_TO", "BUILDS", "RUNS"),
        routes.behind,
        Sentence("{hostname}{path}", "is", "{target}", ("container", "image")),
        "no route serves it",
        closed=False,
        answers=("behind_host",),
    ),
    Query(
        "exposed_services",
        "How services can be reached from outside of their machine: through a proxy, by a published port.",
        _OF_ANY,
        (*_BOTH, "how", "at", "login", "allowed"),
        ("ROUTES_TO", "BINDS"),
        routes.exposed_services,
        Sentence("{service}", "is reached", "at {at}", ("how", "login", "allowed")),
        "no proxy leads to it, and it publishes no port that others reach",
        closed=False,
        answers=("exposed_services", "yesno_exposure"),
    ),
    Query(
        "unexposed_services",
        "The services that no proxy leads to and that publish no port.",
        _WITHIN,
        _BOTH,
        ("ROUTES_TO", "BINDS"),
        routes.unexposed_services,
        Sentence("", "are not exposed:", "{service}"),
        "no service is declared that nothing exposes",
        answers=("lacking",),
    ),
    Query(
        "services_behind_no_proxy",
        "The services that no proxy leads to.",
        _WITHIN,
        _BOTH,
        ("ROUTES_TO",),
        routes.services_behind_no_proxy,
        Sentence("", "are behind no proxy:", "{service}"),
        "no service is declared that no proxy leads to",
        answers=("lacking",),
    ),
    Query(
        "unprotected_routes",
        "Routes whose proxy asks for no login.",
        (*_OF_ANY, _parameter("proxy", "proxy")),
        _ROUTE,
        ("ROUTES_TO", "EXPOSES_ENDPOINT"),
        routes.unprotected_routes,
        Sentence("", "ask for no login at the proxy:", "{hostname}{path}", ("target",)),
        "no route is known whose proxy asks for no login",
        answers=("lacking",),
        doubts=(routes.logins_in_doubt, settings.charts_in_doubt, settings.operators_in_doubt),
    ),
    Query(
        "missing_upstreams",
        "Routes that lead to what nothing declares.",
        (),
        ("upstream", "statement"),
        ("ROUTES_TO",),
        services.missing_upstreams,
        Sentence("", "", "{statement}"),
        "no route to what nothing declares",
        answers=("dangling_routes",),
    ),
    # --- Networks
    Query(
        "networks",
        "The networks that services are on, or the services on a network.",
        (*_OF_ANY, _parameter("network", "network")),
        (*_BOTH, "network", "mode"),
        ("RUNS_IN",),
        services.networks,
        Sentence("{service}", "is on", "{network}"),
        "is on no network",
        answers=("networks_of", "members_of_network", "services_in_networks", "yesno_membership"),
    ),
    Query(
        "network_peers",
        "The services that share a network with one.",
        _OF_ONE,
        (*_BOTH, "peer", "peer_project", "network"),
        ("RUNS_IN",),
        services.network_peers,
        Sentence("{service}", "shares a network with", "{peer}", ("network",)),
        "shares no network with another service",
        answers=("network_peers_of",),
    ),
    Query(
        "shared_networks",
        "The networks that two services share.",
        (_ONE, _OTHER, *_WITHIN),
        (*_BOTH, "peer", "peer_project", "network"),
        ("RUNS_IN",),
        services.shared_networks,
        Sentence("{service} and {peer}", "share", "{network}"),
        "they share no network",
        answers=("shared_networks",),
    ),
    Query(
        "namespace_sharers",
        "The services that use the network namespace of another.",
        _OF_ANY,
        (*_BOTH, "owner", "owner_project"),
        ("DEPENDS_ON",),
        services.namespace_sharers,
        Sentence("{service}", "uses the network of", "{owner}"),
        "uses no other service's network",
        answers=("namespace_sharers",),
    ),
    # --- Places
    Query(
        "services",
        "Services with project, host, container and the file that declares them.",
        _OF_ANY,
        (*_BOTH, "host", "container", "file"),
        ("RUNS", "BUILDS"),
        services.services,
        Sentence("", "", "{service}", ("project", "host")),
        "no service is declared",
        answers=(
            "services_on_host",
            "host_of",
            "services_of_project",
            "project_of",
            "container_name_of",
            "list_things",
        ),
    ),
    Query(
        "projects",
        "The projects, and how many services each has.",
        _WITHIN,
        ("project", "place", "services"),
        ("BUILDS",),
        services.projects,
        Sentence("{project}", "has", "{services}"),
        "no project is declared",
        answers=("list_things",),
    ),
    Query(
        "hosts",
        "The machines on which something runs, or whose address is known.",
        (),
        ("host", "containers", "addresses"),
        ("RUNS", "RESOLVES_TO", "BINDS"),
        services.hosts,
        Sentence("{host}", "runs", "{containers}", ("addresses",)),
        "no machine is declared",
        closed=False,
        answers=("list_things",),
    ),
    Query(
        "addresses",
        "Which name resolves to which address; of one name or address, or all.",
        (_parameter("of", "text"),),
        ("name", "address", "record"),
        ("RESOLVES_TO",),
        services.addresses,
        Sentence("{name}", "is", "{address}"),
        "no address is declared",
        closed=False,
        answers=("address_of", "owner_of_address"),
    ),
    Query(
        "vpn_users",
        "The services whose traffic goes through a tunnel.",
        _OF_ANY,
        (*_BOTH, "tunnel"),
        ("USES_VPN",),
        services.vpn_users,
        Sentence("{service}", "goes through", "{tunnel}"),
        "goes through no VPN tunnel",
        answers=("vpn",),
    ),
    Query(
        "unreached_services",
        "The services that nothing leads to: no route, no published port, no dependent, no connection.",
        _WITHIN,
        _BOTH,
        ("ROUTES_TO", "BINDS", "DEPENDS_ON", "CONNECTS_TO"),
        services.unreached_services,
        Sentence("", "are led to by nothing:", "{service}"),
        "no service is declared that nothing leads to",
        answers=("lacking",),
    ),
)

#: Every query by its name.
QUERIES: Mapping[str, Query] = {q.name: q for q in _ALL}
