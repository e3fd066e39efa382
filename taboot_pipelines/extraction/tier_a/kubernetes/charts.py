"""What charts bring whose values have a known form: the objects that they render, as far as the values tell.

Two forms are conventions, which hundreds of charts follow: what ``helm create`` lays out (``image``,
``service``, ``ingress``, ``httpRoute``), at the top or under the name of a component; and that of the common
library of bjw-s (``controllers``, ``service``, ``ingress``, ``route``, ``persistence``, each by identifiers).
What a chart does beyond them only its templates know.

Reference: helm.sh/docs (``helm create``, best practices), bjw-s-labs.github.io/helm-charts (common library).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from taboot_pipelines.extraction.tier_a.kubernetes.ingresses import GATEWAY
from taboot_pipelines.extraction.tier_a.kubernetes.objects import Object, number
from taboot_pipelines.extraction.tier_a.yaml_nodes import (
    MAPPING,
    SCALAR,
    Entry,
    Node,
    is_open,
    listed,
    told,
    with_children,
    with_text,
)

#: What a chart's template engine puts in that is known outside: the release's name and namespace.
_RELEASE = re.compile(r"\{\{-?\s*\.Release\.(Name|Namespace)\s*-?\}\}")
#: By what a Service that is rendered finds its pods.
_LABEL = "app.kubernetes.io/controller"
#: Protocols of the common library that are no transports, but what is spoken over TCP.
_SPOKEN = frozenset({"HTTP", "HTTPS"})
#: The keys of values of ``helm create`` that are those of a container and of a pod as they are.
_OF_CONTAINER = (
    "resources",
    "securityContext",
    "volumeMounts",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
)
_OF_POD = ("nodeSelector", "volumes")
#: What a controller of the common library is by its ``type``; without one a Deployment.
_KINDS = {
    "daemonset": ("apps", "DaemonSet"),
    "statefulset": ("apps", "StatefulSet"),
    "cronjob": ("batch", "CronJob"),
    "job": ("batch", "Job"),
}
#: The fields of a volume by the types of ``persistence``: {the field's key: that of the values}.
_VOLUMES = {
    "configMap": {"name": "name"},
    "secret": {"secretName": "name"},
    "hostPath": {"path": "hostPath"},
    "nfs": {"server": "server", "path": "path"},
    "emptyDir": {"medium": "medium", "sizeLimit": "sizeLimit"},
}


def is_of_library(values: Node) -> bool:
    """Whether values have the form of the common library: controllers that have containers."""
    return any("containers" in entry.entries for _, entry in _enabled(values, "controllers").values())


def rendered(values: Node, release: Node, namespace: str) -> list[Object]:
    """The workloads, services, ingresses and routes that a release's values tell of.

    ``release``: its name. What is rendered stands where the values say it. Values that are not enabled say
    nothing; nor does an image without a tag, which the chart gives.
    """
    if is_of_library(values):
        return list(_Library(values, release, namespace).objects())
    found = list(_of_scaffold(values, release, namespace))
    for key, (name, component) in values.entries.items():
        if component.kind == MAPPING and (_ingress(component) is not None or _scaffold_routes(component)):
            full = release if key == release.text else with_text(name, f"{release.text}-{key}")
            found += _of_scaffold(component, full, namespace)
    return found


# --- what `helm create` lays out ----------------------------------------------------------------------------


def _of_scaffold(values: Node, name: Node, namespace: str) -> Iterator[Object]:
    image, service, ingress = _image(values), values.get("service"), _ingress(values)
    if image is not None:
        same = {key: values.get(key) for key in _OF_CONTAINER}
        pod = _mapping(
            values,
            containers=_sequence(image, [_mapping(image, image=image, **same)]),
            securityContext=values.get("podSecurityContext"),
            **{key: values.get(key) for key in _OF_POD},
        )
        yield _workload(name, namespace, pod, name.text, replicas=values.scalar("replicaCount"))
    ports = list(_scaffold_ports(service)) if service is not None else []
    if service is not None and (ports or ingress is not None):
        # A ClusterIP as a rule, so that only what says otherwise is published.
        yield _service(name, namespace, service, ports, None)
    for route in _scaffold_routes(values):
        backend = _mapping(route, name=name, port=ports[0].get("port") if len(ports) == 1 else None)
        rule = _mapping(route, matches=route.get("matches"), backendRefs=_sequence(route, [backend]))
        yield _route_object(name, namespace, route, route.get("hostnames"), [rule])
    if ingress is None:
        return
    entry = ingress.entries["ingress"][1]
    only = number(ports[0].get("port")) if len(ports) == 1 else None
    port = _mapping(entry, number=with_text(entry, str(only))) if only is not None else None
    backend = _mapping(entry, service=_mapping(entry, name=name, port=port))
    rules = [
        _mapping(host, host=host, http=_mapping(host, paths=_sequence(host, [_path(host, path, backend)])))
        for host, path in _scaffold_hosts(entry)
    ]
    yield _ingress_object(name, namespace, entry, rules)


def _ingress(values: Node) -> Node | None:
    """The values, if they have an ``ingress`` that is enabled: charts come with one that is not."""
    ingress = values.get("ingress")
    enabled = ingress.get("enabled") if ingress is not None else None
    return values if enabled is not None and enabled.boolean() else None


def _scaffold_routes(values: Node) -> list[Node]:
    """The routes of the Gateway API that are enabled: ``httpRoute``, and those by identifiers in ``route``.
    They are known by the fields of the API that they have."""
    alone, several = values.get("httpRoute"), values.get("route")
    routes = [alone] if alone is not None else []
    routes += [route for _, route in several.entries.values()] if several is not None else []
    return [
        route
        for route in routes
        if (enabled := route.get("enabled")) is not None
        and enabled.boolean()
        and listed(route, "parentRefs")
        and route.get("hostnames") is not None
    ]


def _scaffold_ports(service: Node) -> Iterator[Node]:
    """The ports of ``service: {port: 80}`` and of ``service: {ports: {http: 80}}``."""
    port = service.get("port")
    if number(port) is not None:
        yield _mapping(service, port=port, nodePort=service.get("nodePort"))
    ports = service.get("ports")
    for key, (name, value) in ports.entries.items() if ports is not None else ():
        if number(value) is not None:
            yield _mapping(value, name=with_text(name, key), port=value)


def _scaffold_hosts(ingress: Node) -> Iterator[tuple[Node, Node | None]]:
    """(a host, its path) of ``hosts`` with or without paths, and of ``hostname`` or ``host`` alone."""
    path = ingress.scalar("path")
    for key in ("hostname", "host"):
        host = ingress.scalar(key)
        if host is not None:
            yield host, path
    hosts = ingress.get("hosts")
    for item in hosts.items if hosts is not None else ():
        if item.kind == SCALAR:
            yield item, path
        host, paths = item.scalar("host"), item.get("paths")
        if host is None:
            continue
        for each in paths.items if paths is not None and paths.items else (None,):
            if each is None or each.kind == SCALAR:
                yield host, each or path
            elif each.kind == MAPPING:
                yield host, each.scalar("path")


# --- the common library -------------------------------------------------------------------------------------


class _Library:
    """The objects of values in the form of the common library.

    Of several objects of a kind each is called ``release-identifier``, but for ``main``, and one by itself as
    the release.
    """

    def __init__(self, values: Node, release: Node, namespace: str) -> None:
        self._values, self._release, self._namespace = values, release, namespace
        self._controllers = _enabled(values, "controllers")
        self._services = _enabled(values, "service")
        #: {controller: the services that lead to it}
        self._led: dict[str, list[Node]] = {}
        for key, (_, service) in self._services.items():
            self._led.setdefault(self._controller(key, service), []).append(service)

    def objects(self) -> Iterator[Object]:
        for key, (name, controller) in self._controllers.items():
            own = self._name(self._controllers, key, name)
            yield _controller_object(own, self._namespace, self._pod(key, controller), key, controller)
        for key, (name, service) in self._services.items():
            yield _service(
                self._name(self._services, key, name),
                self._namespace,
                service,
                list(_library_ports(service)),
                self._controller(key, service),
            )
        for key, (name, ingress) in _enabled(self._values, "ingress").items():
            rules = list(self._rules(ingress))
            yield _ingress_object(with_text(name, key), self._namespace, ingress, rules)
        for key, (name, route) in _enabled(self._values, "route").items():
            yield self._route(with_text(name, key), route)

    def _name(self, among: Mapping[str, Entry], key: str, at: Node) -> Node:
        own = among[key][1]
        forced, added = own.scalar("forceRename"), own.scalar("nameOverride")
        if forced is not None:
            return self._told(forced)
        if added is not None:
            return with_text(added, f"{self._release.text}-{self._told(added).text}")
        if len(among) == 1 or key in ("main", self._release.text):
            return self._release
        return with_text(at, f"{self._release.text}-{key}")

    def _told(self, node: Node) -> Node:
        """A text with the release's name and namespace in the place of what stands for them."""
        known = {"Name": self._release.text, "Namespace": self._namespace}
        return with_text(node, _RELEASE.sub(lambda match: known[match[1]], node.text))

    def _controller(self, key: str, service: Node) -> str:
        """The identifier of the controller that a service leads to: the one that it names, the only one, or
        the one that is called as the service."""
        named = service.scalar("controller")
        if named is not None:
            return named.text
        if len(self._controllers) == 1:
            return next(iter(self._controllers))
        return key if key in self._controllers else "main"

    def _pod(self, key: str, controller: Node) -> Node:
        ports = [
            _mapping(port, containerPort=port.get("targetPort") or port.get("port"))
            for service in self._led.get(key, ())
            for port in _library_ports(service)
            if number(port.get("targetPort") or port.get("port")) is not None
        ]
        parts: dict[str, Node | None] = {k: e[1] for k, e in self._options(controller, "pod").items()}
        for kind in ("initContainers", "containers"):
            made = []
            for called, (name, container) in _enabled(controller, kind).items():
                options = self._options(controller, "container", container) | {"name": (name, name)}
                mounts = list(self._mounts(key, called))
                made.append(_container(with_children(container, entries=options), mounts))
            if kind == "containers" and made and ports:
                every = _sequence(controller, [*listed(made[0], "ports"), *ports])
                made[0] = with_children(made[0], entries={**made[0].entries, "ports": (made[0], every)})
            parts[kind] = _sequence(controller, made)
        held = _enabled(self._values, "persistence")
        parts["volumes"] = _sequence(controller, [self._volume(k, held[k]) for k in held])
        return _mapping(controller, **parts)

    def _options(self, controller: Node, of: str, own: Node | None = None) -> dict[str, Entry]:
        """The options of a controller's pod or of a container: its own, key by key, before the defaults of
        the controller and of all."""
        name = f"default{of.title()}Options"
        given = (self._values.get(name), controller.get(name), controller.get(of) if own is None else own)
        return {
            key: entry
            for part in given
            if part is not None
            for key, entry in part.entries.items()
            if not entry[1].is_null
        }

    def _volume(self, key: str, entry: Entry) -> Node:
        """A volume of the pods. A claim that the chart makes is called as its other objects are."""
        name, given = entry
        kind = given.scalar("type")
        said = kind.text if kind is not None else "persistentVolumeClaim"
        called = with_text(name, key)
        if said == "custom":
            held = given.get("volumeSpec")
            return with_children(
                given, entries={**(held.entries if held is not None else {}), "name": (name, called)}
            )
        if said in ("pvc", "persistentVolumeClaim"):
            claim = given.scalar("existingClaim")
            claims = {
                k: e for k, e in _enabled(self._values, "persistence").items()
                if e[1].scalar("existingClaim") is None
                and told(e[1].scalar("type"), "pvc") in ("pvc", "persistentVolumeClaim")
            }  # fmt: skip
            made = self._told(claim) if claim is not None else self._name(claims, key, name)
            return _mapping(given, name=called, persistentVolumeClaim=_mapping(given, claimName=made))
        fields = {own: self._told(node) for own, k in _VOLUMES.get(said, {}).items()
                  if (node := given.scalar(k)) is not None}  # fmt: skip
        return _mapping(given, name=called, **{said: _mapping(given, **fields)})

    def _mounts(self, controller: str, container: str) -> Iterator[Node]:
        """Where a container has what is kept: where every one has it (``globalMounts``), or it alone
        (``advancedMounts``), and where nothing says so, at the path of its identifier."""
        for key, (name, given) in _enabled(self._values, "persistence").items():
            chosen = given.get("advancedMounts")
            of_it = chosen.get(controller) if chosen is not None else None
            mounts = [*listed(given, "globalMounts"), *listed(of_it, container)]
            if not (listed(given, "globalMounts") or (chosen is not None and chosen.entries)):
                mounts = [_mapping(name)]
            same = given.scalar("hostPath") if told(given.scalar("type"), "") == "hostPath" else None
            for mount in mounts:
                yield _mapping(
                    mount,
                    name=with_text(name, key),
                    mountPath=mount.scalar("path") or same or with_text(name, f"/{key}"),
                    subPath=mount.scalar("subPath"),
                    readOnly=mount.scalar("readOnly"),
                )

    def _rules(self, ingress: Node) -> Iterator[Node]:
        hosts = ingress.get("hosts")
        for entry in hosts.items if hosts is not None else ():
            host, paths = entry.scalar("host"), entry.get("paths")
            if host is None:
                continue
            led = [
                _path(path, path.scalar("path"), backend, path.scalar("pathType"))
                for path in (paths.items if paths is not None else ())
                if (backend := self._backend(path, path.get("service"))) is not None
            ]
            yield _mapping(entry, host=self._told(host), http=_mapping(entry, paths=_sequence(entry, led)))

    def _backend(self, place: Node, service: Node | None) -> Node | None:
        """The backend of an ingress: a service of the chart by its identifier, another by its name, or the
        only one there is."""
        named = self._led_to(place, service)
        if named is None:
            return None
        name, port = named
        kind = "number" if port is not None and number(port) is not None else "name"
        return _mapping(
            place,
            service=_mapping(
                place, name=name, port=_mapping(place, **{kind: port}) if port is not None else None
            ),
        )

    def _led_to(self, place: Node, service: Node | None) -> tuple[Node, Node | None] | None:
        """(the name, the port) of the service that an ingress or route leads to."""
        given = service.scalar("identifier") or service.scalar("name") if service is not None else None
        port = service.scalar("port") if service is not None else None
        key = given.text if given is not None else next(iter(self._services), "")
        if key not in self._services:
            return (self._told(given), port) if given is not None else None
        at, own = self._services[key]
        name = self._name(self._services, key, given if given is not None else at)
        if port is None:
            ports = list(_library_ports(own))
            first = [p for p in ports if (p.get("primary") or p).boolean()] or ports
            port = first[0].scalar("port") if first else None
        # The name stands where the route says whom it leads to, if it says it.
        return with_text(given if given is not None else place, name.text), port

    def _route(self, name: Node, route: Node) -> Object:
        """A route of the Gateway API; without rules it leads to the first service."""
        hosts = route.get("hostnames")
        names = [self._told(host) for host in hosts.each()] if hosts is not None else []
        given = route.get("rules")
        rules = [
            _mapping(
                rule,
                matches=rule.get("matches"),
                backendRefs=_sequence(rule, list(self._references(rule, rule.get("backendRefs")))),
            )
            for rule in (given.items if given is not None and given.items else [route])
        ]
        return _route_object(name, self._namespace, route, _sequence(route, names), rules)

    def _references(self, place: Node, given: Node | None) -> Iterator[Node]:
        for each in given.items if given is not None and given.items else (None,):
            led = self._led_to(place, each)
            if led is not None:
                yield _mapping(each or place, name=led[0], port=led[1])


def _controller_object(name: Node, namespace: str, pod: Node, label: str, controller: Node) -> Object:
    """The workload that a controller is."""
    group, kind = _KINDS.get(told(controller.scalar("type"), ""), ("apps", "Deployment"))
    if kind != "CronJob":
        return _workload(name, namespace, pod, label, group, kind, controller.scalar("replicas"))
    timed = controller.get("cronjob")
    job = _workload(name, namespace, pod, label).spec
    spec = _mapping(
        controller,
        jobTemplate=_mapping(controller, spec=job),
        **{k: timed.scalar(k) if timed is not None else None for k in ("schedule", "timeZone", "suspend")},
    )
    return _object(group, kind, name, namespace, spec)


def _probes(container: Node) -> dict[str, Node]:
    """The probes of a container that are enabled: as they are written, or by their type, path and port."""
    found = {}
    for key, (_, probe) in _enabled(container, "probes").items():
        if probe.get("enabled") is None:
            continue  # off, unless it is said to be on
        custom, kind, spec = probe.get("custom"), told(probe.scalar("type"), "TCP"), probe.get("spec")
        parts = {k: node for k, (_, node) in spec.entries.items()} if spec is not None else {}
        if custom is None or not custom.boolean():
            by = "httpGet" if kind in _SPOKEN else "tcpSocket"
            asked = _mapping(probe, path=probe.scalar("path"), port=probe.scalar("port"))
            command = probe.get("command")
            parts |= {by: asked} if command is None else {"exec": _mapping(probe, command=command)}
        found[f"{key}Probe"] = _mapping(probe, **parts)
    return found


def _container(values: Node, mounts: list[Node]) -> Node:
    """A container of a pod, out of its values."""
    env = values.get("env")
    variables = [] if env is None else env.items
    if env is not None and env.kind == MAPPING:
        variables = [
            _mapping(
                value,
                name=with_text(name, key),
                value=value if value.kind == SCALAR else value.get("value"),
                valueFrom=value.get("valueFrom"),
            )
            for key, (name, value) in env.entries.items()
        ]
    return _mapping(
        values,
        name=values.get("name"),
        image=_image(values),
        env=_sequence(values, variables),
        envFrom=values.get("envFrom"),
        command=values.get("command"),
        args=values.get("args"),
        resources=values.get("resources"),
        securityContext=values.get("securityContext"),
        workingDir=values.get("workingDir"),
        ports=values.get("ports"),
        volumeMounts=_sequence(values, mounts),
        **_probes(values),
    )


def _library_ports(service: Node) -> Iterator[Node]:
    """The ports of a service, those by which most is spoken with what that is."""
    for key, (name, port) in _enabled(service, "ports").items():
        protocol = port.scalar("protocol")
        spoken = protocol is not None and protocol.text.upper() in _SPOKEN
        yield _mapping(
            port,
            name=with_text(name, key),
            port=port.get("port"),
            targetPort=port.get("targetPort"),
            nodePort=port.get("nodePort"),
            primary=port.get("primary"),
            protocol=None if spoken else protocol,
            appProtocol=protocol if spoken else port.get("appProtocol"),
        )


# --- objects out of values ----------------------------------------------------------------------------------


def _enabled(values: Node, key: str) -> dict[str, Entry]:
    """The mappings under a key, by identifiers, that are not said to be off."""
    part = values.get(key)
    return {
        name: entry
        for name, entry in (part.entries.items() if part is not None else ())
        if entry[1].kind == MAPPING
        and not is_open(name)
        and ((said := entry[1].get("enabled")) is None or said.boolean(True))
    }


def _image(values: Node) -> Node | None:
    """The reference of ``image: {registry, repository, tag, digest}``, at its place; None without a tag."""
    image = values.get("image")
    if image is None or image.kind == SCALAR:
        return image
    registry, repository = image.scalar("registry"), image.scalar("repository")
    tag, digest = image.scalar("tag"), image.scalar("digest")
    if repository is None or (tag is None and digest is None):
        return None
    text = f"{registry.text}/{repository.text}" if registry is not None else repository.text
    text += f":{tag.text}" if tag is not None else ""
    return with_text(image, f"{text}@{digest.text}" if digest is not None else text)


def _workload(
    name: Node,
    namespace: str,
    pod: Node,
    label: str,
    group: str = "apps",
    kind: str = "Deployment",
    replicas: Node | None = None,
) -> Object:
    labels = _mapping(pod, labels=_mapping(pod, **{_LABEL: with_text(pod, label)}))
    spec = _mapping(pod, replicas=replicas, template=_mapping(pod, metadata=labels, spec=pod))
    return _object(group, kind, name, namespace, spec)


def _service(name: Node, namespace: str, values: Node, ports: list[Node], controller: str | None) -> Object:
    """``controller``: the label of its pods; None: those of its own name."""
    label = with_text(values, name.text if controller is None else controller)
    spec = _mapping(
        values,
        ports=_sequence(values, ports),
        selector=_mapping(values, **{_LABEL: label}),
        type=values.get("type"),
        loadBalancerIP=values.get("loadBalancerIP"),
        externalIPs=values.get("externalIPs"),
    )
    return _object("", "Service", name, namespace, spec, values.get("annotations"))


def _path(place: Node, path: Node | None, backend: Node, kind: Node | None = None) -> Node:
    """A path of an ingress."""
    return _mapping(place, path=path, pathType=kind, backend=backend)


def _ingress_object(name: Node, namespace: str, values: Node, rules: list[Node]) -> Object:
    spec = _mapping(
        values,
        ingressClassName=values.scalar("className") or values.scalar("ingressClassName"),
        rules=_sequence(values, rules),
        tls=values.get("tls"),
    )
    return _object("networking.k8s.io", "Ingress", name, namespace, spec, values.get("annotations"))


def _route_object(
    name: Node, namespace: str, route: Node, hostnames: Node | None, rules: list[Node]
) -> Object:
    kind = route.scalar("kind")
    spec = _mapping(
        route, hostnames=hostnames, parentRefs=route.get("parentRefs"), rules=_sequence(route, rules)
    )
    return _object(GATEWAY, kind.text if kind is not None else "HTTPRoute", name, namespace, spec)


def _object(
    group: str, kind: str, name: Node, namespace: str, spec: Node, annotations: Node | None = None
) -> Object:
    metadata = _mapping(spec, name=name, annotations=annotations)
    return Object(group, kind, name, namespace, _mapping(spec, metadata=metadata, spec=spec))


def _mapping(place: Node, /, **entries: Node | None) -> Node:
    """A mapping at a place, of what is not None."""
    return with_children(
        place, entries={key: (node, node) for key, node in entries.items() if node is not None}
    )


def _sequence(place: Node, items: list[Node]) -> Node:
    return with_children(place, items=items)
