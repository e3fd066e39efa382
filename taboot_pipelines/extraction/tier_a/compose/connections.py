"""URLs and ``host:port`` in environment, commands and labels that lead to a service of the project."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from taboot_pipelines.extraction.tier_a.compose import merging
from taboot_pipelines.extraction.tier_a.compose.claims import ProjectClaims
from taboot_pipelines.extraction.tier_a.compose.files import resolve_path
from taboot_pipelines.extraction.tier_a.compose.mounted import mounted_values
from taboot_pipelines.extraction.tier_a.compose.variables import Environment
from taboot_pipelines.extraction.tier_a.recognition import examples_of
from taboot_pipelines.extraction.tier_a.yaml_nodes import SCALAR, SEQUENCE, Entry, Node, with_text
from taboot_pipelines.model.records import NodeRef

# A scheme is looked for only where a word starts: from every letter of a long word the time is quadratic.
_URL = re.compile(r"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]*)://([^\s/?#\"'<>\\;]+)")
_AUTHORITY = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?::(?:(\d{1,5})|\$.*))?", re.ASCII)
#: The same with variables that have no value here: a public name of the house, as its routes have it.
_OPEN_AUTHORITY = re.compile(r"((?:[A-Za-z0-9._-]|\$\{\w+\})+)(?::(\d{1,5}))?", re.ASCII)
_HOST_PORT = re.compile(
    r"(?:^|(?<=[\s=,;@\"'(\[|]))([A-Za-z0-9][A-Za-z0-9._-]*):(\d{1,5})(?=$|[\s,;/\"')\]|?&])", re.ASCII
)


#: A key of a program's own configuration under which a lone name is where something is. Much else in such
#: files is called as a service is: what an alert is about, the mode of a data source.
_IS_ADDRESS = re.compile(
    r"(?i)(?:host(?:name)?|server|addr(?:ess)?|endpoint|ur[il]|upstream|target|broker|backend|peer|node|dsn"
    r"|remote|origin|relay|proxy)s?$"
)

#: A key of an address that a browser is led to (RFC 6749 ``redirect_uri``, HTML ``href``) or comes from (RFC
#: 6454): whoever is told it does not ask there.
_IS_OF_BROWSER = re.compile(r"(?i)redirect|callback|href|origin|cors")


#: Schemes of protocols that are never without TLS or SSH, and of those whose other scheme has it (IANA's list
#: of URI schemes; of Redis and gRPC what their clients take). The rest may agree on it, which no URL tells.
_ENCRYPTED = frozenset(
    {
        *(
            "amqps",
            "ftps",
            "grpc+tls",
            "grpcs",
            "https",
            "imaps",
            "ircs",
            "ldaps",
            "mqtts",
            "pop3s",
            "rediss",
        ),
        *("rediss", "sftp", "sips", "smtps", "ssh", "ssl", "tls", "valkeys", "wss"),
    }
)
_PLAIN = frozenset({"amqp", "http", "mqtt", "redis", "valkey", "ws"})
#: What a client of PostgreSQL asks for (libpq, ``sslmode``); the modes between take what the server offers.
_SSLMODE = re.compile(r"[?&\s]sslmode=(?:(disable)|(require|verify-ca|verify-full))\b")
#: How far into a text it is looked for.
_MAX_URL = 4096


#: How sure it is what the example of an environment file that is not there says.
OF_EXAMPLE = 0.7


def encryption(scheme: str | None, text: str) -> bool | None:
    """Whether a connection is encrypted by the scheme of its URL, or by what else ``text`` says that the URL
    stands in; None: neither tells."""
    if scheme is not None and scheme.startswith("postgres"):
        mode = _SSLMODE.search(text, 0, _MAX_URL)
        return None if mode is None else mode[1] is None
    return True if scheme in _ENCRYPTED else False if scheme in _PLAIN else None


def asking_scheme(key: str | None, scheme: str) -> str | None:
    """The scheme of a URL under a key, if the program that is told it asks there itself."""
    return None if key is not None and _IS_OF_BROWSER.search(key) else scheme


def claim_connections(
    c: ProjectClaims, ref: NodeRef, name: str, node: Node, labels: Mapping[str, Entry]
) -> None:
    """Connections to the services that the texts of this one name, its ``labels`` among them, and the hosts
    that may be other projects'."""
    links = node.get("links")
    local = {
        a: t for t, _, a in (i.text.partition(":") for i in (links.each() if links is not None else ())) if a
    }
    answering = c.answering
    texts = list(_texts(c, name, node, labels))
    ports = {variable.upper(): text for variable, text, *_ in texts if variable and text.isdecimal()}
    for variable, text, quoted, of_example in texts:
        method, most = ("compose_example", OF_EXAMPLE) if of_example else ("compose_env", 0.9)
        for scheme, host, port in named_hosts(text):
            target = answering.get(host) or local.get(host)
            if target == name:
                continue
            if target is not None and target in c.project.services:
                end = c.service(target)
                c.edge(
                    "CONNECTS_TO",
                    ref,
                    end,
                    quoted,
                    f"{method}_url",
                    confidence=most,
                    protocol=scheme,
                    port=port,
                    encrypted=encryption(scheme, text),
                )
            elif variable is not None:
                asked = asking_scheme(variable, scheme)
                tls = encryption(asked, text)
                c.use(
                    ref,
                    host,
                    quoted,
                    f"{method}_url",
                    protocol=asked,
                    port=port,
                    encrypted=tls,
                    confidence=most,
                )
        upper = "" if variable is None else variable.upper()
        for host, confidence in lone_hosts(variable, text) if variable is not None else ():
            if answering.get(host) != name:
                port = _port(ports.get(_HOST_END.sub("PORT", upper))) if ports else None
                c.use(ref, host, quoted, f"{method}_host", port=port, confidence=min(most, confidence))
        if quoted.missing and "://" in text:
            c.mark(name, "url", quoted)
    for key, text, where in mounted_values(c, node):
        if "IMAGE" in key.upper():
            continue
        for scheme, host, port in named_hosts(text):
            if answering.get(host) != name:
                asked = asking_scheme(key, scheme)
                tls = encryption(asked, text)
                c.use(ref, host, where, "compose_mounted_url", protocol=asked, port=port, encrypted=tls)
        for host, confidence in lone_hosts(key, text) if _IS_ADDRESS.search(key) else ():
            if answering.get(host) != name:
                c.use(ref, host, where, "compose_mounted_host", confidence=confidence)


def _texts(
    c: ProjectClaims, name: str, node: Node, labels: Mapping[str, Entry]
) -> Iterator[tuple[str | None, str, Node, bool]]:
    """(what it is the value of, text, the node that says it, whether only an example does). A label is the
    value of nothing (None): it speaks to another program, not of what the service asks for."""
    environment = node.get("environment")
    own = merging.pairs(environment)
    for variable, (_, value) in own.items():
        # An image reference has the form of a host and a port.
        if value.kind == SCALAR and "IMAGE" not in variable.upper():
            yield variable, value.text, value, False
    # In an `env_file` the project's environment counts first, then the service's own.
    given = {
        variable: None if value.missing else value.text
        for variable, (_, value) in own.items()
        if value.kind == SCALAR and not (value.is_null and value.plain)
    }
    outer = {**given, **c.project.environment}
    values = _file_values(c, name, "env_file", node.get("env_file"), outer)
    for variable, (text, quoted, of_example) in values.items():
        if variable not in own and "IMAGE" not in variable.upper() and text is not None:
            yield variable, text, quoted, of_example
    for field in ("command", "entrypoint"):
        part = node.get(field)
        option = ""
        for value in part.each() if part is not None else ():
            yield option, value.text, value, False
            option = value.text if value.text.startswith("-") else ""
    for _, value in labels.values():
        yield None, value.text, value, False


def _file_values(
    c: ProjectClaims, service: str, field: str, files: Node | None, outer: Environment
) -> dict[str, tuple[str | None, Node, bool]]:
    """{name: (value, the node that names the file, whether an example has it)} of `env_file` or `label_file`,
    the later file winning. Of a file that is not there an example beside it tells."""
    found: dict[str, tuple[str | None, Node, bool]] = {}
    for item in (files.items if files.kind == SEQUENCE else [files]) if files is not None else ():
        node = item if item.kind == SCALAR else item.scalar("path")
        if node is None or c.mark(service, field, node):
            continue
        path = resolve_path(node.origin.base, node.text)
        form = item.scalar("format")
        earlier = {variable: value for variable, (value, *_) in found.items()}
        raw = form is not None and form.text == "raw"
        values = c.loader.read_environment(path, outer, earlier=earlier, raw=raw)
        is_there = values is not None
        if values is None:
            required = item.get("required")
            if required is None or required.boolean(default=True):
                c.report(node, "E_NOT_FOUND", f"the file {path or node.text} is not in the source.")
            for example in () if path is None else examples_of(path):
                values = values or c.loader.read_environment(example, outer, earlier=earlier, raw=raw)
        found.update((variable, (value, node, not is_there)) for variable, value in (values or {}).items())
    return found


def all_labels(c: ProjectClaims, name: str, node: Node) -> dict[str, Entry]:
    """The labels of a service from `label_file`, `labels` and `deploy.labels`, the later winning."""
    found: dict[str, Entry] = {}
    for label, (text, quoted, _) in _file_values(c, name, "label_file", node.get("label_file"), {}).items():
        if text is not None:
            found[label] = (quoted, with_text(quoted, text, plain=False))
    deploy = node.get("deploy")
    for labels in (node.get("labels"), deploy.get("labels") if deploy is not None else None):
        if labels is not None:
            found.update((k, e) for k, e in merging.pairs(labels).items() if e[1].kind == SCALAR)
    return found


def named_hosts(text: str) -> list[tuple[str, str, int | None]]:
    """(protocol, host, port) of every URL, and of every ``host:port`` outside one, in order."""
    if ":" not in text:
        return []
    found: list[tuple[str, str, int | None]] = []
    rest = text
    if "://" in text:
        for match in _URL.finditer(text):
            for part in match[2].rpartition("@")[2].split(","):
                scheme = match[1].lower()
                authority = _AUTHORITY.fullmatch(part)
                if authority is None and scheme in ("http", "https"):
                    authority = _OPEN_AUTHORITY.fullmatch(part)
                if authority is not None:
                    found.append((scheme, authority[1], _port(authority[2])))
        rest = _URL.sub(" ", text)
    for match in _HOST_PORT.finditer(rest):
        port = _port(match[2])
        if port is not None:
            found.append(("tcp", match[1], port))
    return found


#: What a value by itself may be the name of, by the last word of what it is the value of: a host …
_OF_HOSTS = frozenset(
    {
        *("addr", "address", "addresses", "broker", "brokers", "endpoint", "endpoints", "host", "hostname"),
        *("hostnames", "hosts", "ip", "nodes", "peer", "peers", "relay", "server", "servers", "upstream"),
        *("uri", "url", "urls"),
    }
)
#: … or something else.
_OF_OTHERS = frozenset(
    {
        *("adapter", "alias", "app", "auth", "backend", "bucket", "cache", "channel", "class", "client"),
        *("cluster", "codec", "collection", "command", "connection", "connector", "container", "country"),
        *(
            "currency",
            "database",
            "db",
            "dbname",
            "default",
            "device",
            "dialect",
            "dir",
            "directory",
            "domain",
        ),
        *(
            "driver",
            "edition",
            "email",
            "encoding",
            "engine",
            "entrypoint",
            "env",
            "environment",
            "extension",
        ),
        *("extensions", "feature", "features", "file", "filter", "flavor", "flavour", "folder", "format"),
        *("framework", "from", "gid", "group", "groups", "handler", "icon", "id", "identifier", "image"),
        *("index", "interface", "job", "key", "keyspace", "kind", "label", "labels", "lang", "language"),
        *("level", "locale", "log", "method", "middleware", "mode", "module", "modules", "name", "names"),
        *("namespace", "network", "networks", "org", "organization", "owner", "package", "pass", "passwd"),
        *("password", "path", "pid", "platform", "plugin", "plugins", "policy", "port", "prefix", "preset"),
        *("profile", "profiles", "project", "protocol", "provider", "providers", "pwd", "queue", "realm"),
        *("region", "release", "repository", "role", "roles", "root", "salt", "schema", "scheme", "scope"),
        *("secret", "section", "service", "services", "session", "shell", "site", "source", "stage", "state"),
        *("storage", "store", "strategy", "subject", "suffix", "system", "table", "tag", "tags", "target"),
        *("team", "template", "tenant", "theme", "title", "token", "topic", "type", "tz", "uid", "user"),
        *("username", "variant", "vendor", "version", "vhost", "volume", "zone"),
    }
)
#: What ends the name of a variable that has the host of which another, ending in ``PORT``, has the port.
_HOST_END = re.compile(r"(?:HOST(?:NAME)?|SERVER|ADDR(?:ESS)?|IP)\Z")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LONE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
_NO_NAMES = frozenset({"true", "false", "yes", "no", "on", "off", "null", "none", "auto", "default"})
#: ``host=db`` of a connection string, ``--host db`` and ``-h db`` of a command within a text.
_KEYED = re.compile(
    r"(?:^|(?<=[\s;\"'?&]))(?:(?P<flag>--?[A-Za-z][A-Za-z0-9._-]*)(?:=|[ \t]+)"
    r"|(?P<key>[A-Za-z][A-Za-z ]*)[ \t]*=[ \t]*)(?:tcp:)?"
    r"(?P<value>[A-Za-z0-9][A-Za-z0-9._-]*)(?=$|[\s,;\"'&)])",
    re.ASCII,
)


def lone_hosts(key: str, text: str) -> list[tuple[str, float]]:
    """(name, how sure it is a host's) of the names of hosts in a text that have no port: it is one, or a list
    of them, and what it is the ``key`` of does not say that it names something else; or it says within which
    part of it is the host (``host=db user=app``, ``pg_isready -h db``). ``key`` may be an option."""
    if "=" in text or " -" in text or text[:1] == "-":
        if "://" in text:
            text = _URL.sub(" ", text)
        return [
            (match["value"], sure)
            for match in _KEYED.finditer(text)
            if match["value"].lower() not in _NO_NAMES
            and (sure := _of_host(match["flag"] or match["key"], match["flag"] is None)) > 0
            and any(ch.isalpha() for ch in match["value"])
        ]
    if not text or len(text) > 255 or "/" in text or " " in text or not key:
        return []
    sure = _of_host(key, exact=False)
    if sure == 0:
        return []
    parts = text.replace(";", ",").split(",")
    if all(
        _LONE.fullmatch(part) is not None
        and (part.upper() != part.lower() or sure > 0.8)
        and ("." not in part or sure > 0.8)
        for part in parts
    ):
        return [(part, sure) for part in parts if part.lower() not in _NO_NAMES]
    return []


@lru_cache(maxsize=4096)
def _of_host(key: str, exact: bool) -> float:
    """How sure the value of a key is the name of a host; 0: it is something else. ``exact``: only where the
    key says so."""
    if key.startswith("-") and not key.startswith("--"):
        return 0.9 if key in ("-h", "-H", "-host") else 0
    words = _WORDS.findall(key)
    last = words[-1].lower() if words else ""
    if last in _OF_HOSTS or last.endswith(("host", "server", "hostname")):
        return 0.9
    # Also in one word, as libpq has it: PGUSER, PGDATABASE.
    is_of_other = last in _OF_OTHERS or last.endswith(("user", "username", "database", "dbname", "password"))
    return 0 if exact or not last or is_of_other else 0.8


def _port(text: str | None) -> int | None:
    return int(text) if text and len(text) < 6 and 1 <= int(text) <= 65535 else None
