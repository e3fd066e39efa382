"""The settings of Kubernetes' workloads under the keys that a service of Compose has for them, so that one
question fits both: limits, volumes, health checks, users, replicas.

The same of what charts bring by values of known forms. Reference: the API of Kubernetes (core/v1 Container,
PodSpec), the Compose specification.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from taboot_pipelines.extraction.tier_a.kubernetes.charts import rendered
from taboot_pipelines.extraction.tier_a.kubernetes.objects import Object, objects
from taboot_pipelines.extraction.tier_a.yaml_nodes import (
    MAPPING,
    SCALAR,
    SEQUENCE,
    Node,
    block_mapping,
    listed,
)

#: {a key of a container: that of a service of Compose} where both hold the same.
_OF_CONTAINER = {
    "image": "image",
    "imagePullPolicy": "pull_policy",
    "workingDir": "working_dir",
    "stdin": "stdin_open",
    "tty": "tty",
}
_OF_SECURITY = {
    "runAsUser": "user",
    "privileged": "privileged",
    "readOnlyRootFilesystem": "read_only",
}
_OF_POD = {
    "restartPolicy": "restart",
    "hostname": "hostname",
    "terminationGracePeriodSeconds": "stop_grace_period",
    "serviceAccountName": "service_account",
    "runtimeClassName": "runtime",
    "priorityClassName": "priority_class",
}
_OF_PROBE = {
    "periodSeconds": "interval",
    "timeoutSeconds": "timeout",
    "failureThreshold": "retries",
    "initialDelaySeconds": "start_period",
}
_AMOUNTS = {"limits": "limits", "requests": "reservations"}
_NAMES = {"cpu": "cpus"}
_SECONDS = frozenset({"interval", "timeout", "start_period", "stop_grace_period"})
_FLAG = re.compile(r"(--?[A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)
#: Keys above a value that are followed.
_MAX_DEPTH = 40
#: What runs charts: the fields that hold the values of one.
_RELEASES = {"HelmRelease": "helm.toolkit.fluxcd.io", "Application": "argoproj.io"}


class Setting(NamedTuple):
    """A setting of a service or a middleware: the keys beneath it, the value, and the node that says it."""

    name: str
    keys: tuple[str, ...]
    value: str
    node: Node


def of_manifests(trees: Sequence[Node]) -> Iterator[Setting]:
    """The settings of the workloads and Services of a file, and of what its releases bring."""
    if not any(tree.kind == MAPPING and tree.scalar("apiVersion") is not None for tree in trees):
        return
    for one in objects(trees):
        yield from _of_object(one)
        for brought in _brought(one):
            yield from _of_object(brought)


def is_release(text: str) -> bool:
    """Whether a file may hold a release of a chart."""
    return any(kind in text for kind in _RELEASES)


def of_charts(trees: Sequence[Node]) -> frozenset[str]:
    """The names of the releases of a file, and of the workloads and Services that these bring by their
    values. What their charts set besides stands in none of them."""
    releases = [one for one in objects(trees) if _RELEASES.get(one.kind) == one.group]
    brought = (made for one in releases for made in _brought(one) if made.is_workload or made.is_service)
    return frozenset(one.name.text for one in (*releases, *brought))


def repositories(trees: Sequence[Node]) -> Iterator[Setting]:
    """The version of the chart that each of Flux' OCI repositories of a file holds."""
    for one in objects(trees):
        if one.kind == "OCIRepository" and one.spec is not None:
            held = one.spec.get("ref")
            for key in ("digest", "semver", "tag"):  # the first that is there counts (fluxcd.io, "Reference")
                said = held.scalar(key) if held is not None else None
                if said is not None:
                    yield Setting(one.name.text, (key,), said.text, said)
                    break


def middlewares(trees: Sequence[Node]) -> Iterator[Setting]:
    """What Traefik's middlewares are among the resources of a file: each of its kinds, and of a chain the
    names of those in it."""
    for one in objects(trees):
        if one.kind != "Middleware" or not one.group.startswith("traefik.") or one.spec is None:
            continue
        for kind, (key, value) in one.spec.entries.items():
            if kind.lower() == "chain":
                named = (each.scalar("name") for each in listed(value, "middlewares"))
                names = ", ".join(name.text for name in named if name is not None)
                yield Setting(one.name.text, ("chain", "middlewares"), names, value)
            else:
                yield Setting(one.name.text, (kind,), "", key)


def own_words(trees: Sequence[Node]) -> Iterator[Setting]:
    """The specs of workloads, Services and releases, each value under the file's own keys."""
    for one in objects(trees):
        known = one.is_workload or one.is_service or _RELEASES.get(one.kind) == one.group
        if known and one.spec is not None:
            yield from _leaves(one.name.text, ("spec",), one.spec)


def _leaves(name: str, keys: tuple[str, ...], node: Node) -> Iterator[Setting]:
    if len(keys) > _MAX_DEPTH:
        return
    if node.kind == SCALAR:
        yield Setting(name, keys, node.text, node)
    for key, (said, value) in node.entries.items() if node.kind == MAPPING else ():
        if value.kind == MAPPING and not value.entries:
            yield Setting(name, (*keys, key), "", said)
        yield from _leaves(name, (*keys, key), value)
    for item in node.items if node.kind == SEQUENCE else ():
        yield from _leaves(name, keys, item)


def _brought(one: Object) -> Iterator[Object]:
    """What an object brings, if it is a release, by its values."""
    for values in _values(one):
        yield from rendered(values, one.name, one.namespace)


def _values(one: Object) -> Iterator[Node]:
    """The values that a release gives its charts."""
    spec = one.spec
    if spec is None or _RELEASES.get(one.kind) != one.group:
        return
    source = spec.get("source")
    charts = [c for s in [*([source] if source is not None else []), *listed(spec, "sources")]
              if (c := s.get("helm")) is not None]  # fmt: skip
    for given in (spec.get("values"), *(c.get(k) for c in charts for k in ("valuesObject", "values"))):
        if given is not None:
            held = block_mapping(given) if given.kind == SCALAR else given
            if held is not None and held.kind == MAPPING:
                yield held


def _of_object(one: Object) -> Iterator[Setting]:
    if one.is_service and one.spec is not None:
        yield from _same(one.name.text, (), one.spec, {"type": "type"})
        return
    if not one.is_workload:
        return
    name, spec = one.name.text, one.spec
    if spec is not None:
        at, zone = spec.scalar("schedule"), spec.scalar("timeZone")
        if at is not None and zone is not None:
            yield Setting(name, ("schedule",), f"{at.text} in {zone.text}", at)
        else:
            yield from _same(name, (), spec, {"schedule": "schedule"})
        yield from _same(name, (), spec, {"suspend": "suspend"})
        yield from _same(name, ("deploy",), spec, {"replicas": "replicas"})
    _, pod = one.pod
    if pod is None:
        return
    yield from _same(name, (), pod, _OF_POD)
    if pod.scalar("restartPolicy") is None and not one.kind.endswith("Job"):
        yield Setting(name, ("restart",), "Always", pod)  # nothing else is allowed for what runs on
    for key, own in (("hostNetwork", "network_mode"), ("hostPID", "pid"), ("hostIPC", "ipc")):
        shared = pod.scalar(key)
        if shared is not None and shared.boolean():
            yield Setting(name, (own,), "host", shared)
    selector = pod.get("nodeSelector")
    for key, (_, value) in selector.entries.items() if selector is not None else ():
        yield Setting(name, ("deploy", "placement", "constraints"), f"{key} == {value.text}", value)
    security = pod.get("securityContext")
    if security is not None:
        yield from _same(name, (), security, _OF_SECURITY)
    volumes = {
        v.text: volume for volume in listed(pod, "volumes") if (v := volume.scalar("name")) is not None
    }
    for number, container in enumerate(listed(pod, "containers")):
        called = container.scalar("name")
        inner = ("containers", called.text if called is not None else str(number)) if number else ()
        yield from _of_container(name, inner, container, volumes)


def _of_container(
    name: str, inner: tuple[str, ...], container: Node, volumes: dict[str, Node]
) -> Iterator[Setting]:
    yield from _same(name, inner, container, _OF_CONTAINER)
    security = container.get("securityContext")
    if security is not None:
        yield from _same(name, inner, security, _OF_SECURITY)
        granted = security.get("capabilities")
        for key in ("add", "drop"):
            part = granted.get(key) if granted is not None else None
            for item in part.each() if part is not None else ():
                yield Setting(name, (*inner, f"cap_{key}"), item.text, item)
    for key, own in (("command", "entrypoint"), ("args", "command")):
        yield from _of_words(name, (*inner, own), container.get(key))
    for variable in listed(container, "env"):
        yield from _of_variable(name, inner, variable)
    for whole in listed(container, "envFrom"):
        for kind in ("configMap", "secret"):
            reference = whole.get(f"{kind}Ref")
            held = reference.scalar("name") if reference is not None else None
            if held is not None:
                said = f"{'ConfigMap' if kind == 'configMap' else 'Secret'} {held.text}"
                yield Setting(name, (*inner, "env_file"), said, held)
    for port in listed(container, "ports"):
        inside, outside = port.scalar("containerPort"), port.scalar("hostPort")
        if inside is not None and outside is not None:
            yield Setting(name, (*inner, "ports"), f"{outside.text}:{inside.text}", outside)
        elif inside is not None:
            yield Setting(name, (*inner, "expose"), inside.text, inside)
    resources = container.get("resources")
    for key, own in _AMOUNTS.items():
        part = resources.get(key) if resources is not None else None
        for what, (_, amount) in part.entries.items() if part is not None else ():
            keys = (*inner, "deploy", "resources", own, _NAMES.get(what, what))
            if amount.kind == SCALAR:
                yield Setting(name, keys, amount.text, amount)
    for mount in listed(container, "volumeMounts"):
        yield from _of_mount(name, inner, mount, volumes)
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(key)
        if probe is not None:
            yield from _of_probe(name, (*inner, "healthcheck"), probe)
            break


def _same(name: str, inner: tuple[str, ...], held: Node, keys: dict[str, str]) -> Iterator[Setting]:
    for key, own in keys.items():
        value = held.scalar(key)
        if value is not None and value.text:
            text = f"{value.text}s" if own in _SECONDS and value.text.isdecimal() else value.text
            yield Setting(name, (*inner, own), text, value)


def _of_words(name: str, keys: tuple[str, ...], part: Node | None) -> Iterator[Setting]:
    """A command, whole, and each of its options by its name."""
    words = list(part.each()) if part is not None else []
    if not words or part is None:
        return
    yield Setting(name, keys, " ".join(w.text for w in words), part)
    for number, word in enumerate(words):
        flag = _FLAG.fullmatch(word.text)
        if flag is None:
            continue
        after = words[number + 1] if number + 1 < len(words) else None
        if flag[2] is not None:
            yield Setting(name, (*keys, flag[1]), flag[2], word)
        elif after is not None and not after.text.startswith("-"):
            yield Setting(name, (*keys, flag[1]), after.text, after)


def _of_variable(name: str, inner: tuple[str, ...], variable: Node) -> Iterator[Setting]:
    called, value = variable.scalar("name"), variable.get("value")
    if called is None:
        return
    keys = (*inner, "environment", called.text)
    if value is not None and value.kind == SCALAR:
        yield Setting(name, keys, value.text, value)
        return
    given = variable.get("valueFrom")
    for kind, shown in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
        reference = given.get(kind) if given is not None else None
        key, held = (reference.scalar(k) if reference is not None else None for k in ("key", "name"))
        if key is not None and held is not None:
            yield Setting(name, keys, f"the key {key.text} of the {shown} {held.text}", key)


def _of_mount(name: str, inner: tuple[str, ...], mount: Node, volumes: dict[str, Node]) -> Iterator[Setting]:
    """A mount as ``source:target:ro``, as Compose writes it."""
    called, target = mount.scalar("name"), mount.scalar("mountPath")
    if called is None or target is None:
        return
    source = _source(volumes[called.text]) if called.text in volumes else called.text
    below, only = mount.scalar("subPath"), mount.scalar("readOnly")
    if below is not None and below.text:
        source = f"{source}/{below.text}"
    ends = ":ro" if only is not None and only.boolean() else ""
    yield Setting(name, (*inner, "volumes"), f"{source}:{target.text}{ends}", target)


def _source(volume: Node) -> str:
    """What a volume of a pod is: a path of the machine, a claim, a server's share, or its kind and name."""
    path = volume.get("hostPath")
    said = path.scalar("path") if path is not None else None
    if said is not None:
        return said.text
    share = volume.get("nfs")
    if share is not None:
        server, where = share.scalar("server"), share.scalar("path")
        return f"{server.text if server else ''}:{where.text if where else ''}"
    for kind, key in (
        ("persistentVolumeClaim", "claimName"),
        ("configMap", "name"),
        ("secret", "secretName"),
        ("csi", "driver"),
    ):
        part = volume.get(kind)
        held = part.scalar(key) if part is not None and part.kind == MAPPING else None
        if held is not None:
            return held.text
    called = volume.scalar("name")
    return called.text if called is not None else ""


def _of_probe(name: str, keys: tuple[str, ...], probe: Node) -> Iterator[Setting]:
    web, port, command = probe.get("httpGet"), probe.get("tcpSocket"), probe.get("exec")
    if web is not None:
        path, at = web.scalar("path"), web.scalar("port")
        where = at if path is None else path
        if where is not None:
            text = f"GET :{at.text if at is not None else ''}{path.text if path is not None else '/'}"
            yield Setting(name, (*keys, "test"), text, where)
    elif port is not None and (at := port.scalar("port")) is not None:
        yield Setting(name, (*keys, "test"), f"TCP :{at.text}", at)
    elif command is not None and (words := command.get("command")) is not None and words.kind == SEQUENCE:
        yield Setting(name, (*keys, "test"), " ".join(w.text for w in words.each()), words)
    yield from _same(name, keys, probe, _OF_PROBE)
