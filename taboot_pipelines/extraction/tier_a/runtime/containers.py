"""The containers of a dump, whatever wrote it: Docker, Podman, or a cluster of Kubernetes.

Reference: Docker Engine API 1.47 (``ContainerInspect``, ``ContainerList``), podman-inspect(1), podman-ps(1),
the Kubernetes API (core/v1 ``Pod``, apps/v1), the labels of Compose, Swarm and Quadlet. What a form does not
tell is None, which is not the same as nothing.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.claims import Quote
from taboot_pipelines.model.json_text import Value
from taboot_pipelines.model.runtime import WORKLOADS, Form, form_of, objects_of

_ID = re.compile(r"[0-9a-f]{12}(?:[0-9a-f]{52})?")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
#: Of what is written as text: ``0.0.0.0:8000-8001->80-81/tcp``, ``[::]:80->80/tcp``.
_PORT = re.compile(
    r"(?P<address>\[?[0-9a-fA-F:.]*\]?):(?P<first>\d+)(?:-(?P<last>\d+))?"
    r"->(?P<target>\d+)(?:-\d+)?/(?P<protocol>[a-z]+)"
)
#: A label in the one text that ``docker ps`` writes of all: its value ends before the next label.
_LABEL = re.compile(r"(?:^|,)([\w.-]+)=((?:(?!,[\w./-]+=).)*)", re.DOTALL)
_STACK = "com.docker.stack.namespace"
#: Addresses that stand for every one of the machine.
EVERY = frozenset({"", "0.0.0.0", "::"})
#: Where Docker Desktop shows the files of the machine.
_DESKTOP = re.compile(r"^(?:/host_mnt|/run/desktop/mnt/host)(?=/)")


@dataclass(frozen=True, slots=True)
class Port:
    """A published port; ``address`` in its normal form, empty for every one."""

    quote: Quote
    address: str
    published: int
    target: int
    protocol: str

    @property
    def shown(self) -> str:
        at = f"[{self.address}]" if ":" in self.address else self.address
        return f"{at + ':' if at else ''}{self.published}:{self.target}/{self.protocol}"


@dataclass(frozen=True, slots=True)
class Mount:
    """``source``: a path of the machine, or the name of a volume."""

    quote: Quote
    kind: str
    source: str
    target: str
    read_only: bool

    @property
    def shown(self) -> str:
        return f"{self.source}:{self.target}{':ro' if self.read_only else ''}"


@dataclass(frozen=True, slots=True)
class Container:
    """What a dump says of one container. ``scope``: the project, stack or namespace that it is of, and
    ``service`` in it; ``unit``: of systemd; ``directory``: where the project's relative paths begin;
    ``placed``: a cluster (Kubernetes, Swarm) decides where it runs, by which name, and how it is reached;
    ``unhealthy``: what says that its health check fails, whether it runs or not."""

    id: str
    name: Quote
    state: Quote
    running: bool
    ended: bool = False
    unhealthy: Quote | None = None
    scope: str = ""
    service: str = ""
    unit: str = ""
    directory: str = ""
    placed: bool = False
    image: Quote | None = None
    digest: str = ""
    restart: Quote | None = None
    networks: tuple[Quote, ...] | None = None
    ports: tuple[Port, ...] | None = None
    mounts: tuple[Mount, ...] | None = None

    @property
    def wholeness(self) -> int:
        """How much the dump tells of it."""
        return sum(said is not None for said in (self.restart, self.networks, self.ports, self.mounts))


@dataclass(frozen=True, slots=True)
class Workload:
    """What a cluster says of a workload: how many pods it is to have, and how many are ready."""

    name: Quote
    namespace: str
    wanted: int
    ready: int


@dataclass(frozen=True, slots=True)
class Runtime:
    """What a dump of containers says. ``complete``: what it does not hold does not exist there."""

    containers: tuple[Container, ...]
    workloads: tuple[Workload, ...] = ()
    complete: bool = True


def read_runtime(path: str, text: str) -> Runtime:
    """The containers of a dump; none of what is none. Raises ``E_PARSE`` for JSON that breaks off."""
    form = form_of(text)
    if form is None or not form.is_json:
        return Runtime(())
    reading = _Reading(path, text)
    objects = objects_of(text)
    if form is Form.CLUSTER:
        found = [c for o in objects if o.string("kind") == "Pod" for c in reading.pod(o)]
        workloads = [reading.workload(o) for o in objects if o.string("kind") in WORKLOADS]
        return Runtime(tuple(found), tuple(w for w in workloads if w is not None), complete=False)
    read = reading.inspected if form is Form.INSPECT else reading.listed
    return Runtime(tuple(c for o in objects if (c := read(o)) is not None))


class _Reading:
    """One dump."""

    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._text = text

    def _quote(self, value: Value | None, text: str | None = None) -> Quote | None:
        if value is None:
            return None
        inner = int(isinstance(value.data, str))
        said = value.data if text is None and isinstance(value.data, str) else text or ""
        return Quote(said, self._path, value.start + inner, value.end - inner)

    def _member(self, name: str, value: Value, text: str | None = None) -> Quote:
        """A member of an object, from its name on."""
        at = self._text.rfind(f'"{name}"', 0, value.start)
        return Quote(name if text is None else text, self._path, max(at, 0), value.end)

    # --- Docker and Podman ----------------------------------------------------------------------------------

    def inspected(self, of: Value) -> Container | None:
        """One object of ``inspect``; None for what is no container, or is none by itself."""
        labels = {k: v.string() for k, v in of.members("Config", "Labels").items()}
        name, state = self._named(of.at("Name")), of.at("State", "Status")
        if name is None or state is None or of.true("IsInfra") or _is_passing(labels):
            return None
        policy = of.at("HostConfig", "RestartPolicy")
        mode = of.string("HostConfig", "NetworkMode")
        image = of.at("Config", "Image")
        if of.string("ImageName") and image is None:
            image = of.at("ImageName")
        bound = of.members("HostConfig", "PortBindings") or (
            of.members("NetworkSettings", "Ports") if of.string("Pod") else {}
        )
        exit_code = of.integer("State", "ExitCode")
        health = of.at("State", "Health", "Status")
        return Container(
            id=of.string("Id"),
            name=name,
            state=_known(self._quote(state)),
            # Docker says of what waits to be restarted, or is paused, that it is running too.
            running=of.true("State", "Running") and state.string() not in ("restarting", "paused"),
            unhealthy=self._quote(health) if health is not None and health.string() == "unhealthy" else None,
            ended=exit_code == 0 and state.string() in ("exited", "stopped"),
            image=self._quote(image),
            digest=_digest(of.string("ImageDigest"), of.string("Image")),
            restart=self._restart(policy) if policy is not None else None,
            networks=self._networks(of.at("NetworkSettings", "Networks"), mode),
            ports=tuple(self._ports_bound(bound)),
            mounts=tuple(self._mounts(of.items("Mounts"))),
            placed=_STACK in labels,
            **_belongs(labels),
        )

    def listed(self, of: Value) -> Container | None:
        """One line of ``ps``, or one entry of the API's list."""
        named = of.at("Names")
        if named is not None and isinstance(named.data, list):
            named = named.at(0)
        name, state = self._named(named), of.at("State")
        told = of.at("Labels")
        labels = dict(_LABEL.findall(told.string())) if told is not None and told.string() else {}
        labels |= {k: v.string() for k, v in of.members("Labels").items()}
        if name is None or state is None or not state.string() or of.true("IsInfra") or _is_passing(labels):
            return None
        status = of.string("Status")
        ended = status.startswith("Exited (0)") or (
            state.string() == "exited" and of.integer("ExitCode") == 0 and not status.startswith("Exited (")
        )
        return Container(
            id=of.string("Id") or of.string("ID"),
            name=name,
            state=_known(self._quote(state)),
            running=state.string().lower() in ("running", "up"),
            unhealthy=self._quote(of.at("Status"), "unhealthy") if "(unhealthy)" in status else None,
            ended=ended,
            image=self._quote(of.at("Image")),
            digest=_digest(of.string("ImageID")),
            networks=self._networks_listed(of),
            ports=self._ports_listed(of.at("Ports")),
            mounts=tuple(self._mounts(of.items("Mounts"))) if _has_objects(of.at("Mounts")) else None,
            placed=_STACK in labels,
            **_belongs(labels),
        )

    def _named(self, value: Value | None) -> Quote | None:
        quote = self._quote(value)
        if quote is None or not quote.text.strip("/"):
            return None
        # Docker writes links as further names behind a comma.
        name = quote.text.lstrip("/").split(",")[0]
        slash = len(quote.text) - len(quote.text.lstrip("/"))
        return Quote(name, quote.path, quote.start + slash, quote.start + slash + len(name))

    def _restart(self, policy: Value) -> Quote:
        """The policy as Compose writes it: ``on-failure:5``."""
        name = policy.string("Name") or "no"
        count = policy.integer("MaximumRetryCount")
        return Quote(
            f"{name}:{count}" if name == "on-failure" and count else name,
            self._path,
            policy.start,
            policy.end,
        )

    def _networks(self, held: Value | None, mode: str) -> tuple[Quote, ...] | None:
        if held is None or mode.startswith(("container:", "ns:")):
            return None
        return tuple(self._member(name, value) for name, value in held.members().items())

    def _networks_listed(self, of: Value) -> tuple[Quote, ...] | None:
        held = of.at("Networks")
        if held is None:
            return self._networks(
                of.at("NetworkSettings", "Networks"), of.string("HostConfig", "NetworkMode")
            )
        if isinstance(held.data, str):
            names = [n for n in held.data.split(",") if n]
            return tuple(Quote(n, self._path, held.start + 1, held.end - 1) for n in names) or None
        # Podman names none of a container that has another's, or the machine's.
        return tuple(q for n in held.items() if (q := self._quote(n)) is not None) or None

    def _ports_bound(self, bound: dict[str, Value]) -> Iterator[Port]:
        for name, bindings in bound.items():
            target, _, protocol = name.partition("/")
            for binding in bindings.items():
                port = binding.integer("HostPort")
                # Without a number, or with 0, the engine picks one.
                if port and target.isdecimal():
                    quote = self._member(name, bindings)
                    address = _address(binding.string("HostIp"))
                    yield Port(quote, address, port, int(target), protocol or "tcp")

    def _ports_listed(self, held: Value | None) -> tuple[Port, ...] | None:
        if held is None:
            return None
        found: list[Port] = []
        if isinstance(held.data, str):
            for at in _PORT.finditer(held.data):
                # Docker escapes the arrow, so that the places of its parts are others in the file.
                quote = Quote(at[0], self._path, held.start + 1, held.end - 1)
                first, last = int(at["first"]), int(at["last"] or at["first"])
                for n in range(min(last, 65_535) - first + 1):
                    inside = int(at["target"]) + n
                    found.append(Port(quote, _address(at["address"]), first + n, inside, at["protocol"]))
            return tuple(found)
        for entry in held.items():
            quote = _known(self._quote(entry, ""))
            port = entry.integer("PublicPort") or entry.integer("host_port")
            target = entry.integer("PrivatePort") or entry.integer("container_port")
            protocol = entry.string("Type") or entry.string("protocol") or "tcp"
            if port and target:
                address = _address(entry.string("IP") or entry.string("host_ip"))
                for n in range(min(entry.integer("range") or 1, 65_536 - max(port, target))):
                    found.append(Port(quote, address, port + n, target + n, protocol))
        return tuple(found)

    def _mounts(self, items: list[Value]) -> Iterator[Mount]:
        for mount in items:
            kind, target = mount.string("Type"), mount.string("Destination")
            if target and kind in ("bind", "volume"):
                named = mount.string("Name") if kind == "volume" else ""
                source = named or _DESKTOP.sub("", mount.string("Source"))
                writable = mount.at("RW")
                yield Mount(
                    _known(self._quote(mount, "")),
                    kind,
                    source,
                    target,
                    writable is not None and writable.data is False,
                )

    # --- Kubernetes -----------------------------------------------------------------------------------------

    def pod(self, of: Value) -> Iterator[Container]:
        """The containers of a pod, each of its workload."""
        namespace = of.string("metadata", "namespace") or "default"
        statuses = {s.string("name"): s for s in of.items("status", "containerStatuses")}
        phase, pod = of.at("status", "phase"), of.at("metadata", "name")
        for one in of.items("spec", "containers"):
            status = statuses.get(one.string("name"))
            if status is None or pod is None or phase is None:
                continue
            number = status.string("containerID").rpartition("/")[2]
            if _ID.fullmatch(number) is None:
                continue
            state = next(iter(status.members("state").items()), None)
            yield Container(
                id=number,
                name=Quote(f"{pod.string()}/{one.string('name')}", self._path, pod.start + 1, pod.end - 1),
                state=_known(self._quote(phase)) if state is None else self._member(*state),
                running=state is not None and state[0] == "running",
                ended=phase.string() == "Succeeded",
                scope=namespace,
                service=_owner(of),
                placed=True,
                image=self._quote(one.at("image")),
                digest=_digest(status.string("imageID").rpartition("@")[2]),
            )

    def workload(self, of: Value) -> Workload | None:
        name = self._quote(of.at("metadata", "name"))
        if name is None:
            return None
        daemons = of.string("kind") == "DaemonSet"
        wanted = of.integer(*(("status", "desiredNumberScheduled") if daemons else ("spec", "replicas")))
        ready = of.integer("status", "numberReady" if daemons else "readyReplicas")
        return Workload(
            name,
            of.string("metadata", "namespace") or "default",
            1 if wanted is None and not daemons else wanted or 0,
            ready or 0,
        )


def _known(quote: Quote | None) -> Quote:
    assert quote is not None
    return quote


def _has_objects(held: Value | None) -> bool:
    return held is not None and isinstance(held.data, list) and all(m.members() for m in held.items())


def _is_passing(labels: dict[str, str]) -> bool:
    """Whether somebody ran it once beside what is declared (``docker compose run``)."""
    return labels.get("com.docker.compose.oneoff") == "True"


def _belongs(labels: dict[str, str]) -> dict[str, Any]:
    """Whose container it is, as its labels say."""
    unit = labels.get("PODMAN_SYSTEMD_UNIT", "")
    directory = labels.get("com.docker.compose.project.working_dir", "")
    for prefix in ("com.docker.compose", "io.podman.compose"):
        project, service = labels.get(f"{prefix}.project", ""), labels.get(f"{prefix}.service", "")
        if project and service:
            return {"scope": project, "service": service, "directory": directory, "unit": unit}
    stack, service = (
        labels.get(_STACK, ""),
        labels.get("com.docker.swarm.service.name", ""),
    )
    if stack and service.startswith(f"{stack}_"):
        return {"scope": stack, "service": service.removeprefix(f"{stack}_")}
    return {"scope": "systemd", "service": unit.removesuffix(".service"), "unit": unit} if unit else {}


def _digest(*candidates: str) -> str:
    """The first that is a digest; Podman writes that of an image without its algorithm."""
    for text in candidates:
        whole = f"sha256:{text}" if re.fullmatch(r"[0-9a-f]{64}", text) else text
        if _DIGEST.fullmatch(whole):
            return whole
    return ""


def _address(text: str) -> str:
    try:
        normal = str(ipaddress.ip_address(text.strip("[]")))
    except ValueError:
        return ""
    return "" if normal in EVERY else normal


def _owner(pod: Value) -> str:
    """The workload that a pod is of: that of its replica set or job, without what these add to its name."""
    owner = pod.at("metadata", "ownerReferences", 0)
    if owner is None:
        return pod.string("metadata", "name")
    name, kind = owner.string("name"), owner.string("kind")
    if kind == "ReplicaSet":
        return name.removesuffix(f"-{pod.string('metadata', 'labels', 'pod-template-hash')}")
    return re.sub(r"-\d{8,}$", "", name) if kind == "Job" else name


def is_anonymous(mount: Mount) -> bool:
    """Whether an engine made a volume for it that nobody named."""
    return mount.kind == "volume" and re.fullmatch(r"[0-9a-f]{64}", mount.source) is not None


def tried(path: str, text: str) -> Runtime:
    """As :func:`read_runtime`; nothing where the text breaks off."""
    try:
        return read_runtime(path, text)
    except TabootError:
        return Runtime(())
