"""Prometheus' configuration: what is asked for metrics, and where alerts and samples go."""

from __future__ import annotations

import ipaddress
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder
from taboot_pipelines.extraction.tier_a.compose.connections import encryption
from taboot_pipelines.extraction.tier_a.compose.files import resolve_path
from taboot_pipelines.extraction.tier_a.endpoints import DEFAULT_PORTS, normal_host
from taboot_pipelines.extraction.tier_a.recognition import top_keys
from taboot_pipelines.extraction.tier_a.texts import UnitTexts
from taboot_pipelines.extraction.tier_a.yaml_nodes import MAPPING, SEQUENCE, Node, documents, is_open
from taboot_pipelines.model.graph import SCHEMES, Basis, is_ip
from taboot_pipelines.model.records import FileView, Interpretation, NodeRef, SourceFacts

_TARGET = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]@]+)(?::(\d{1,5}))?", re.ASCII)
_WHOLE = frozenset({"(.*)", ".*", "(.+)"})
_COPIED = frozenset({"$1", "${1}"})
_DECIDING = frozenset({"__address__", "__scheme__", "__metrics_path__"})
_FILTERS = frozenset({"keep", "drop", "keepequal", "dropequal"})
_LOCAL = frozenset({"localhost", "localhost.localdomain", "host.docker.internal"})
#: {what a module of an exporter is called after: the protocol that it probes by}
_MODULES = {
    "icmp": "icmp",
    "ping": "icmp",
    "http": "http",
    "tcp": "tcp",
    "dns": "dns",
    "ssh": "ssh",
    "grpc": "grpc",
}

PROMETHEUS = "prometheus"
#: Targets of one file.
MAX_TARGETS = 20_000
_HOST_PORT = re.compile(r"\A[^/]+:\d{1,5}\Z", re.ASCII)
_PROBE_CONFIDENCE = 0.9
_TARGET_FILE = re.compile(r"\ufeff?\s*\[\s*\{\s*\"(?:targets|labels)\"\s*:")


@dataclass(slots=True)
class Job:
    """How the targets of one job are reached."""

    scheme: str | None = "http"
    path: str = "/metrics"
    auth: str | None = None
    method: str = "prometheus_scrape"
    #: The address of the exporter that is asked in place of the targets.
    exporter: Node | None = None
    #: Whether that exporter is told to probe the targets.
    probes: bool = False
    module: str = ""


@dataclass(frozen=True, slots=True)
class Peer:
    """A target as it is written: ``host``, and ``port`` where it is said or the scheme has one."""

    host: str
    port: int | None
    scheme: str | None
    path: str


def apply_rule(rule: Node, found: Job) -> bool:
    """Apply a rule of relabelling that is one of the idioms; False if it decides something otherwise."""
    action = rule.scalar("action")
    kind = action.text.lower() if action is not None else "replace"
    if kind in _FILTERS:
        return False
    target = rule.scalar("target_label")
    name = target.text if target is not None else ""
    sources = rule.get("source_labels")
    given = [source.text for source in sources.each()] if sources is not None else []
    regex, replacement = rule.scalar("regex"), rule.scalar("replacement")
    whole = regex is None or regex.text in _WHOLE
    copies = replacement is None or replacement.text in _COPIED
    if kind == "labelmap":
        return replacement is None or not replacement.text.startswith("__")
    if name == "__param_target":
        found.probes = kind == "replace" and given == ["__address__"] and whole and copies
        return True
    if name not in _DECIDING or (kind == "replace" and given == [name] and whole and copies):
        return True
    constant = replacement is not None and "$" not in replacement.text and not given and regex is None
    if kind != "replace" or not constant or replacement is None or is_open(replacement.text):
        return False
    if name == "__address__":
        found.exporter = replacement
    elif name == "__scheme__":
        found.scheme = replacement.text.lower()
    else:
        found.path = replacement.text
    return True


def auth_of(job: Node) -> str | None:
    """How a job shows who it is."""
    keys = job.entries.keys()
    if "basic_auth" in keys:
        return "basic"
    if keys & {"authorization", "bearer_token", "bearer_token_file"}:
        return "bearer"
    if "oauth2" in keys:
        return "oauth2"
    tls = job.get("tls_config")
    return "mtls" if tls is not None and tls.scalar("cert_file") is not None else None


def peer_of(text: str, found: Job) -> Peer | None:
    """``host[:port]``; None if it is none."""
    match = _TARGET.fullmatch(text.strip())
    if match is None or normal_host(match[1]) is None:
        return None
    port = int(match[2]) if match[2] else DEFAULT_PORTS.get(found.scheme or "")
    if port is not None and not 1 <= port <= 65535:
        return None
    return Peer(match[1], port, found.scheme, found.path if found.path.startswith("/") else f"/{found.path}")


def peer_of_url(text: str) -> Peer | None:
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        return None
    # `hostname` is in lower case; names of services keep theirs.
    host = parts.netloc.rpartition("@")[2]
    host = host if host.endswith("]") else re.sub(r":\d*$", "", host)
    if not parts.scheme or normal_host(host) is None:
        return None
    return Peer(host, port or DEFAULT_PORTS.get(parts.scheme), parts.scheme, parts.path or "/")


def probed_by(found: Job) -> str | None:
    """The protocol by which an exporter probes a target that is no URL, by the name of its module."""
    if found.path.rstrip("/").endswith("snmp"):
        return "snmp"
    if not found.module:
        # The blackbox exporter's default module.
        return "http" if found.path == "/probe" else None
    return next((protocol for word, protocol in _MODULES.items() if word in found.module), None)


def is_local(host: str) -> bool:
    """Whether a name or an address is the machine's own."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower().rstrip(".") in _LOCAL


def looks_like_prometheus(head: str) -> bool:
    """Whether a text begins as Prometheus' configuration, a list of its jobs, or a list of targets."""
    keys = top_keys(head)
    return (
        "scrape_configs" in keys
        or ("job_name" in keys and "static_configs" in head)
        or ("targets" in keys and re.search(r"^- ", head, re.MULTILINE) is not None)
        or _TARGET_FILE.match(head) is not None
    )


class PrometheusReader:
    """Reads Prometheus' configuration and lists of targets (a
    :class:`~taboot_pipelines.extraction.tier_a.recognition.FormatReader`)."""

    name = PROMETHEUS
    version = "3"

    def interpret(self, path: str, view: FileView, source: SourceFacts) -> Interpretation:
        texts = UnitTexts(view)
        reading = _Reading(ClaimBuilder(source, texts), texts, view, path)
        for document in documents(path, texts):
            reading.document(document)
        return reading.claims.result(reading.taken)


def _targets(groups: Node) -> Iterator[Node]:
    """The targets of a list of groups."""
    for group in groups.items:
        targets = group.get("targets")
        if targets is not None:
            yield from targets.each()


@dataclass(slots=True)
class _Reading:
    claims: ClaimBuilder
    texts: UnitTexts
    view: FileView
    path: str
    taken: set[str] = field(default_factory=set)
    targets: int = 0

    def document(self, document: Node) -> None:
        if document.kind == SEQUENCE:
            jobs = [item for item in document.items if item.get("job_name") is not None]
            if not jobs:
                # A list of targets that no configuration here names: by which scheme is not known. Lists of
                # other things are called so too, and targets to be probed do not tell by whom.
                if not all(_HOST_PORT.search(target.text) for target in _targets(document)):
                    return
                self.groups(document, Job(None, "/", method="prometheus_targets"))
                return
        else:
            configs = document.get("scrape_configs")
            jobs = configs.items if configs is not None else []
            if configs is not None:
                self.prometheus(document.entries["scrape_configs"][0])
        for job in jobs:
            if job.kind == MAPPING:
                self.job(job)
        alerting = document.get("alerting")
        managers = alerting.get("alertmanagers") if alerting is not None else None
        for manager in managers.items if managers is not None else ():
            prefix = manager.scalar("path_prefix")
            found = self.decided(
                manager, "prometheus_alertmanager", prefix.text if prefix is not None else "/"
            )
            if found is not None:
                self.discovered(manager, found)
        for key in ("remote_write", "remote_read"):
            remotes = document.get(key)
            for remote in remotes.items if remotes is not None else ():
                url = remote.scalar("url")
                if url is not None:
                    self.reach(
                        self.prometheus(url), url, Job(method=f"prometheus_{key}", auth=auth_of(remote))
                    )

    def prometheus(self, quoted: Node) -> NodeRef | None:
        return self.claims.node(NodeRef("Service", ("", PROMETHEUS), PROMETHEUS), quoted)

    # --- jobs -----------------------------------------------------------------------------------------------

    def job(self, job: Node) -> None:
        path = job.scalar("metrics_path")
        found = self.decided(job, "prometheus_scrape", path.text if path is not None else "/metrics")
        if found is None:
            return
        if found.exporter is not None:
            self.reach(self.prometheus(found.exporter), found.exporter, found)
        self.discovered(job, found)

    def decided(self, job: Node, method: str, path: str) -> Job | None:
        """How a job reaches its targets; None where relabelling decides it."""
        scheme = job.scalar("scheme")
        found = Job(scheme.text.lower() if scheme is not None else "http", path, auth_of(job), method)
        if is_open(found.scheme or "") or is_open(path):
            self.claims.problem(job, "E_UNRESOLVED", "the scheme or the path is yet to be put in.")
            return None
        params = job.get("params")
        module = params.get("module") if params is not None else None
        found.module = next((m.text.lower() for m in module.each()), "") if module is not None else ""
        rules = job.get("relabel_configs")
        for rule in rules.items if rules is not None else ():
            if not apply_rule(rule, found):
                self.claims.problem(
                    rule, "E_UNRESOLVED", "relabelling decides which targets are asked where."
                )
                return None
        return found

    def discovered(self, job: Node, found: Job) -> None:
        """The targets that a job lists itself, in files, or by a name of DNS."""
        static = job.get("static_configs")
        if static is not None:
            self.groups(static, found)
        files = job.get("file_sd_configs")
        for config in files.items if files is not None else ():
            patterns = config.get("files")
            for pattern in patterns.each() if patterns is not None else ():
                self.listed(pattern, found)
        names = job.get("dns_sd_configs")
        for config in names.items if names is not None else ():
            self.named(config, found)

    def listed(self, pattern: Node, found: Job) -> None:
        where = resolve_path(posixpath.dirname(self.path), pattern.text)
        matched = self.view.glob(where) if where is not None else ()
        if not matched:
            self.claims.problem(pattern, "E_NOT_FOUND", "no such list of targets is in the source.")
        for path in matched:
            if path == self.path or self.texts.text(path) is None:
                continue
            self.taken.add(path)
            for document in documents(path, self.texts):
                if document.kind == SEQUENCE:
                    self.groups(document, found)

    def named(self, config: Node, found: Job) -> None:
        """Names whose addresses are asked; service records give ports that the file does not."""
        kind, port = config.scalar("type"), config.scalar("port")
        names = config.get("names")
        if kind is None or kind.text.upper() not in ("A", "AAAA") or names is None or port is None:
            return
        for name in names.each():
            # Docker's name for the tasks of a service.
            host = name.text.removeprefix("tasks.")
            self.target(name, f"{host}:{port.text}", found)

    def groups(self, groups: Node, found: Job) -> None:
        """Targets with the labels that they share, by which a scheme and a path may be set."""
        for group in groups.items:
            targets, labels = group.get("targets"), group.get("labels")
            own = found
            if labels is not None:
                scheme, path = labels.scalar("__scheme__"), labels.scalar("__metrics_path__")
                if scheme is not None or path is not None:
                    own = Job(
                        scheme.text.lower() if scheme is not None else found.scheme,
                        path.text if path is not None else found.path,
                        found.auth,
                        found.method,
                        found.exporter,
                        found.probes,
                        found.module,
                    )
            for target in targets.each() if targets is not None else ():
                self.target(target, target.text, own)

    def target(self, node: Node, text: str, found: Job) -> None:
        self.targets += 1
        if self.targets > MAX_TARGETS:
            if self.targets == MAX_TARGETS + 1:
                self.claims.problem(node, "E_TOO_LARGE", f"only the first {MAX_TARGETS} targets are kept.")
            return
        if found.exporter is None:
            self.reach(self.prometheus(node), node, found, text)
        elif found.probes:
            exporter = peer_of(found.exporter.text, found)
            named = self.other(exporter, found.exporter) if exporter is not None else None
            if named is not None and named.label in ("Service", "Host"):
                self.probe(named, node, found)

    # --- what is claimed ------------------------------------------------------------------------------------

    def reach(self, start: NodeRef | None, node: Node, found: Job, text: str | None = None) -> None:
        """``start`` asks what ``node`` names, by a URL or as ``host:port``."""
        written = node.text if text is None else text
        if is_open(written):
            self.claims.problem(node, "E_UNRESOLVED", "the address is yet to be put in.")
            return
        is_url = found.method.startswith("prometheus_remote")
        peer = peer_of_url(written) if is_url else peer_of(written, found)
        if peer is None:
            self.claims.problem(node, "E_PARSE", "this is no address that Prometheus can ask.")
            return
        self.connect(start, peer, node, found.method, found.auth)

    def probe(self, start: NodeRef, node: Node, found: Job) -> None:
        """An exporter that is asked about a target asks the target."""
        text = node.text
        if is_open(text):
            self.claims.problem(node, "E_UNRESOLVED", "the address is yet to be put in.")
            return
        if "://" in text:
            peer = peer_of_url(text)
        else:
            plain = peer_of(text.partition("/")[0], Job(None))
            scheme = probed_by(found)
            path = "/" + text.partition("/")[2]
            peer = plain and Peer(plain.host, plain.port or DEFAULT_PORTS.get(scheme or ""), scheme, path)
        if peer is None:
            self.claims.problem(node, "E_PARSE", "this is no address that can be probed.")
            return
        sure = "://" in text
        self.connect(start, peer, node, "prometheus_probe", None, 1.0 if sure else _PROBE_CONFIDENCE)

    def connect(
        self,
        start: NodeRef | None,
        peer: Peer,
        quoted: Node,
        method: str,
        auth: str | None,
        confidence: float = 1.0,
    ) -> None:
        end = self.other(peer, quoted)
        endpoint = None
        if peer.scheme in SCHEMES and peer.port is not None and not is_local(peer.host):
            endpoint = self.claims.endpoint(peer.scheme, peer.host, peer.port, peer.path, quoted)
        if end is None or end.label == "IP":
            return
        if end != start:
            self.claims.edge(
                "CONNECTS_TO",
                start,
                end,
                quoted,
                method,
                start_basis=self.claims.basis(start, quoted)
                if start is not None and method == "prometheus_probe"
                else Basis.DERIVED,
                written=quoted.text,
                confidence=confidence,
                protocol=peer.scheme,
                port=peer.port,
                encrypted=encryption(peer.scheme, ""),
            )
        if end.label == "Service":
            self.claims.edge(
                "EXPOSES_ENDPOINT",
                end,
                endpoint,
                quoted,
                method,
                start_basis=self.claims.basis(end, quoted, quoted.text),
                end_basis=Basis.DERIVED,
                auth=auth,
            )

    def other(self, peer: Peer, quoted: Node) -> NodeRef | None:
        """The node of a host: a service where it is one word, else a host, or an address."""
        host = normal_host(peer.host)
        if host is None or is_local(peer.host):
            return None
        if is_ip(host):
            return self.claims.ip(host, quoted) if peer.scheme not in SCHEMES else None
        if "." in host:
            return self.claims.node(NodeRef("Host", (host,), host), quoted)
        return self.claims.node(NodeRef("Service", ("", peer.host), peer.host), quoted)
