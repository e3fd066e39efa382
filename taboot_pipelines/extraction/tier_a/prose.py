"""Mentions that any text shows by itself: URLs, host:port, IPs, CIDRs and image references.

Each kind has an anchor that the text is searched for at C speed (``://``, ``:`` and digits, dotted digits, a
registry's name …); a candidate is then grown from its anchor within fixed bounds and verified by the standard
it follows (WHATWG URL, RFC 1123, RFC 4291/5952, OCI). So any text takes linear time. Precision comes first:
what may be a version, a time, a file and line, a port mapping or a placeholder (``<your-ip>:8080``) is left
out.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass

import ada_url

from taboot_pipelines.extraction.tier_a.endpoints import DEFAULT_PORTS, endpoint, normal_host
from taboot_pipelines.extraction.tier_a.images import ImageReference, try_reference
from taboot_pipelines.extraction.tier_a.regions import RegionIndex, regions
from taboot_pipelines.model.graph import SCHEMES, Basis
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.packaged import word_list

PROSE_VERSION = "1"

#: Longer candidates are no addresses that people write.
_URL_MAX = 4096
_SCHEME_MAX = 24
_HOST_MAX = 253
_COMMAND_MAX = 8000


@dataclass(frozen=True, slots=True)
class Mention:
    """``text[start:end]`` names ``node``. ``kind``: url, host_port, ip, cidr or image. ``basis``: ``bytes``
    if the node's name stands in the span as it is, else ``normalized``."""

    kind: str
    node: NodeRef
    start: int
    end: int
    basis: Basis


def find_mentions(text: str, code: bool = False) -> list[Mention]:
    """Every mention in ``text``, by start, without overlap: a URL goes over an image, that over a CIDR,
    host:port and IP.

    ``code``: the whole text is code (YAML, a conf), where bare names with a port count. Never raises; linear
    time.
    """
    return _Finder(text, code).run()


# --- characters and words -----------------------------------------------------------------------------------

_URL_BODY = re.compile(rf"[^\s<>\"`|\\^{{}}\x00-\x1f\x7f]{{1,{_URL_MAX}}}")
_HTML_TAG = re.compile(
    r"<(?:/|br\b|a\b|p\b|b\b|i\b|em\b|li\b|td\b|ul\b|code\b|span\b|strong\b|div\b|hr\b|img\b|!--)",
    re.IGNORECASE,
)
_SCHEME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-")
_HOST_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")
_WORD = re.compile(r"[A-Za-z0-9_]")
_SCHEME_NAMES = {"grpcs": "grpc+tls", **{s: s for s in SCHEMES}}
_AUTHORITY = re.compile(r"(?:[^\s/?#@]*@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})(?![\w.:-])")

_PORT = re.compile(r":(\d{1,5})(?!\d)")
_IPV4 = re.compile(r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?!\d)")
_IPV6 = re.compile(r":[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:.]{0,41}")
_PREFIX_LENGTH = re.compile(r"/(\d{1,3})(?![\w/.-]*\w)")
_VERSION_BEFORE = re.compile(
    r"(?i)(?:\b(?:version|versions|release|rev|revision|build|firmware|kernel|v|ver|upgrade to|update to|bump"
    r" to)\b\.?[\s:=*`(\"']*)\Z"
)

#: A host of these is a stand-in for the reader's own.
_PLACEHOLDER = re.compile(
    r"(?i)(?:^|[._-])(?:your|my)(?:$|[._-]|ip|host|domain|server|site|proxy|company|nas|address)"
    r"|^(?:the[._-]?)?(?:local|remote|public|private|external|internal|docker|server|host|container|machine|lan|vpn|nas|some|any)?[._-]?"
    r"(?:ip|host|hostname|server|address|ipaddress|ip[._-]address|host[._-]ip|server[._-]ip|serverip|hostip|domain|fqdn|dockerhost|servername|container[._-]name)$"
    r"|^url\d*$|^x+(?:\.x+)*$|(?:^|[._-])(?:xxx+|placeholder|changeme)(?:$|[._-])"
)
#: Last labels that make "name.ext:12" a file and a line. Some are top-level domains; code says them more
#: often.
_EXTENSIONS = word_list("taboot_pipelines.extraction.tier_a", "file_extensions.txt")
#: Words that stand before ":<number>" in code and name no host.
_NO_HOST = word_list("taboot_pipelines.extraction.tier_a", "not_hosts.txt")
_TAGS = word_list("taboot_pipelines.extraction.tier_a", "image_tags.txt")
_BOOLEAN_FLAGS = word_list("taboot_pipelines.extraction.tier_a", "container_flags.txt")
_RUN_IMAGE = re.compile(
    r"(?:docker|podman|nerdctl)[ \t]+(?:image[ \t]+|container[ \t]+)?(pull|run|create)[ \t]+"
)
_IMAGE_KEY = re.compile(r"image:[ \t]*")
_FROM = re.compile(
    r"FROM[ \t]+(?:--platform=\S{1,100}[ \t]+)?([^\s\"'`]{1,512})([ \t]+[Aa][Ss][ \t]+([\w.-]{1,128}))?"
    r"[ \t]*(?=\r?\n|\Z)"
)
_DOCKERFILE = re.compile(r"\n[ \t]*(?:RUN|COPY|CMD|ENTRYPOINT|WORKDIR|ENV|ADD|EXPOSE|ARG|USER|LABEL)[ \t]")
_REGISTRY = re.compile(r"\.(?:io|com|org|aws|co|dev)/")
_REGISTRIES = word_list("taboot_pipelines.extraction.tier_a", "image_registries.txt")
_TAGGED_PATH = re.compile(r"/[a-z0-9][a-z0-9._-]{0,127}:(?=[A-Za-z0-9_])")
_REFERENCE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._/-]{0,300}(?::[0-9]{1,5}/[a-z0-9][A-Za-z0-9._/-]{0,300})?(?::\w[\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
#: A word of a shell command on this line or a continued one; quotes may stand anywhere in it.
_TOKEN = re.compile(
    r"""[ \t]*(?:\\\r?\n[ \t]*)*"""
    r"""((?:[^\s\\"']|"(?:[^"\\\n]|\\.){0,2000}"|'[^'\n]{0,2000}'|\\[^\r\n]){1,2000})"""
)
_PLACEHOLDER_NEXT = frozenset("<{$*%>")


class _Finder:
    def __init__(self, text: str, code: bool) -> None:
        self.text = text
        self.code = code
        self.found: list[Mention] = []
        #: One byte per code point: 1 where a mention, or what was refused as one, stands.
        self.taken = bytearray(len(text))
        self._index: RegionIndex | None = None

    def run(self) -> list[Mention]:
        self.urls()
        self.images()
        self.ipv4_networks()
        self.ipv6()
        self.host_ports()
        self.ipv4()
        self.found.sort(key=lambda m: m.start)
        return self.found

    # --- shared ---------------------------------------------------------------------------------------------

    def take(self, start: int, end: int) -> bool:
        """Claim the span; False if part of it is taken."""
        if self.taken.find(1, start, end) >= 0:
            return False
        self.block(start, end)
        return True

    def block(self, start: int, end: int) -> None:
        self.taken[start:end] = b"\x01" * (end - start)

    def add(self, kind: str, node: NodeRef, start: int, end: int) -> None:
        basis = Basis.BYTES if node.name in self.text[start:end] else Basis.NORMALIZED
        self.found.append(Mention(kind, node, start, end, basis))

    def in_code(self, at: int) -> bool:
        if self.code:
            return True
        if self._index is None:
            self._index = RegionIndex([r for r in regions(self.text) if r[2] == "code"])
        return self._index.at(at) is not None

    def before(self, at: int) -> str:
        return self.text[at - 1] if at else "\n"

    def after(self, at: int) -> str:
        return self.text[at] if at < len(self.text) else "\n"

    # --- URLs -----------------------------------------------------------------------------------------------

    def urls(self) -> None:
        text = self.text
        at = text.find("://")
        while at >= 0:
            resume = at + 3
            start = at
            while start and at - start < _SCHEME_MAX and text[start - 1] in _SCHEME_CHARS:
                start -= 1
            while start < at and not text[start].isalpha():
                start += 1
            scheme = text[start:at].lower()
            if scheme not in _SCHEME_NAMES:
                # "1.https://", "git+https://": the scheme is the last word.
                for cut in (scheme.rfind("."), scheme.rfind("-"), scheme.rfind("+")):
                    if cut >= 0 and scheme[cut + 1 :] in _SCHEME_NAMES:
                        start, scheme = start + cut + 1, scheme[cut + 1 :]
                        break
            body = _URL_BODY.match(text, resume)
            if body is not None and scheme:
                end = self._trim(resume, body.end())
                self._url(scheme, start, end, body.end())
                resume = max(resume, end)
            at = text.find("://", resume)

    def _trim(self, start: int, end: int) -> int:
        """Where a URL's body ends: before the bracket that closes what it stands in, and before prose
        punctuation.
        """
        text = self.text
        link = text.find("](", start, end)
        if link >= 0:
            end = link
        depth = {")": 0, "]": 0}
        for i in range(start, end):
            c = text[i]
            if c == "(":
                depth[")"] += 1
            elif c == "[":
                depth["]"] += 1
            elif c in depth:
                depth[c] -= 1
                if depth[c] < 0:
                    end = i
                    break
        while end > start and text[end - 1] in ".,;:!?'*_~([…’”":
            end -= 1
        return end

    def _url(self, scheme: str, start: int, end: int, body_end: int) -> None:
        text = self.text
        body = text[text.index("://", start) + 3 : end]
        if not body:
            return
        known = _SCHEME_NAMES.get(scheme)
        following = self.after(body_end)
        cut_short = end == body_end and (
            following in "{$" or (following == "<" and not _HTML_TAG.match(text, body_end))
        )
        node: NodeRef | None = None
        if known is not None and not cut_short and "$" not in body.partition("/")[0]:
            node = _url_node(known, body)
        elif known is None and not cut_short:
            # Another protocol's URL (redis://, postgres://): its host and port are an address all the same.
            m = _AUTHORITY.match(body)
            host = normal_host(m[1]) if m is not None else None
            if (
                m is not None
                and host is not None
                and 1 <= int(m[2]) <= 65535
                and not _PLACEHOLDER.search(host)
            ):
                base = text.index("://", start) + 3
                if self.take(base + m.start(1), base + m.end(2)):
                    self.add(
                        "host_port", endpoint("tcp", host, int(m[2])), base + m.start(1), base + m.end(2)
                    )
                self.block(start, base)
                return
            if scheme in ("docker", "oci"):
                return
        if node is not None and self.take(start, end):
            self.add("url", node, start, end)
        else:
            self.block(start, end)

    # --- images ---------------------------------------------------------------------------------------------

    def images(self) -> None:
        for start, end, reference in self._image_candidates():
            if self.take(start, end):
                self.add("image", NodeRef("Image", (reference.image_id,), reference.name), start, end)

    def _image_candidates(self) -> Iterator[tuple[int, int, ImageReference]]:
        text = self.text
        for m in _RUN_IMAGE.finditer(text):
            if not _WORD.match(self.before(m.start())) and (operand := self._operand(m.end())) is not None:
                yield from self._reference(*operand, bare=self.in_code(m.start()))
        for m in _IMAGE_KEY.finditer(text):
            if self._line_lead(m.start(), frozenset(" \t-\"'>")):
                end = m.end()
                quote = self.after(end)
                if quote in ("'", '"'):
                    end += 1
                value = _REFERENCE.match(text, end)
                if value is not None and self._line_tail(value.end(), quote):
                    yield from self._reference(end, value.end(), bare=True)
        stages = set[str]()
        for m in _FROM.finditer(text):
            if self._line_lead(m.start(), frozenset(" \t>")):
                if m[1] not in stages:
                    bare = m[2] is not None or _DOCKERFILE.search(text, m.end(), m.end() + 400) is not None
                    yield from self._reference(m.start(1), m.end(1), bare=bare)
                if m[3]:
                    stages.add(m[3])
        for m in _REGISTRY.finditer(text):
            start = self._back(m.start(), _HOST_CHARS, _HOST_MAX)
            if (
                text[start : m.end() - 1].lower() in _REGISTRIES
                and self.before(start) not in ("/", "@")
                and (r := _REFERENCE.match(text, start))
            ):
                yield from self._reference(start, self._sentence_end(start, r.end()), bare=False)
        for m in _TAGGED_PATH.finditer(text):
            start = self._back(m.start(), _HOST_CHARS | {"/"}, _HOST_MAX)
            if self.before(start) in (":", "@", "~", "$", "}", ">", "\\", "%") or text[start] in "/.-_":
                continue
            r = _REFERENCE.match(text, start)
            if r is not None and r.end() > m.end() - 1:
                end = self._sentence_end(start, r.end())
                tag = text[m.end() : end].partition("@")[0].lower()
                namespace = text[start : m.start()]
                # A path and a number is a file and a line: the tag must look like one.
                plain = "/" not in namespace and "." not in namespace
                if (tag in _TAGS or re.match(r"v?\d+(?:\.\d+)+|[a-z]+-v?\d|v\d|\d+-[a-z]", tag)) and (
                    plain or namespace.partition("/")[0] in _REGISTRIES or "." in namespace.partition("/")[0]
                ):
                    yield from self._reference(start, end, bare=False)

    def _back(self, at: int, characters: frozenset[str], limit: int) -> int:
        text, stop = self.text, max(0, at - limit)
        while at > stop and text[at - 1] in characters:
            at -= 1
        return at

    def _line_lead(self, at: int, allowed: frozenset[str]) -> bool:
        text, stop = self.text, max(0, at - 200)
        while at > stop and text[at - 1] != "\n":
            at -= 1
            if text[at] not in allowed:
                return False
        return at == 0 or text[at - 1] == "\n"

    def _line_tail(self, at: int, quote: str) -> bool:
        """Whether the YAML value that ends here is all of its line, a comment aside."""
        if quote in ("'", '"'):
            if self.after(at) != quote:
                return False
            at += 1
        line = self.text[at : at + 200].partition("\n")[0].strip("\r \t")
        return line == "" or (line.startswith("#") and self.after(at) in (" ", "\t"))

    def _sentence_end(self, start: int, end: int) -> int:
        while end > start and self.text[end - 1] in ".-_/":
            end -= 1
        return end

    def _reference(self, start: int, end: int, bare: bool) -> Iterator[tuple[int, int, ImageReference]]:
        written = self.text[start:end]
        if self.after(end) in _PLACEHOLDER_NEXT or self.after(end) == "/" or written == "scratch":
            return
        if self.after(end) == ":" and self.after(end + 1) in _PLACEHOLDER_NEXT:
            return
        if not (bare or (":" in written or "@" in written or "/" in written)):
            return
        last = written.rpartition("/")[2]
        if "." in last and ":" not in last and last.rpartition(".")[2].lower() in _EXTENSIONS:
            return
        reference = try_reference(written)
        if reference is not None:
            yield start, end, reference

    def _operand(self, at: int) -> tuple[int, int] | None:
        """The image of a ``docker run|pull|create`` command line whose arguments begin at ``at``."""
        text, limit = self.text, min(len(self.text), at + _COMMAND_MAX)
        skip = False
        while at < limit and (m := _TOKEN.match(text, at, limit)) is not None:
            token, at = m[1], m.end()
            if skip:
                skip = False
            elif token[0] in "`#":
                # A remark put into the command by backticks, as in "-p 80:80 `#optional`".
                if not (token.startswith("`#") and token.endswith("`")):
                    return None
            elif token[0] == "-":
                flags = token.partition("=")[0]
                short = len(flags) > 1 and flags[1] != "-"
                if "=" not in token and token not in _BOOLEAN_FLAGS:
                    if short and len(token) > 2:
                        # "-dit" sets switches; "-p80:80" and "-itp" are told apart by what switches there
                        # are.
                        skip = token[-1] in "peveuwhlm" and all(c in "ditqP" for c in token[1:-1])
                    else:
                        skip = True
            else:
                r = _REFERENCE.match(text, m.start(1), m.end(1))
                if r is None:
                    return None
                end = self._sentence_end(m.start(1), r.end())
                # What follows must not make it another word.
                return (m.start(1), end) if text[end : m.end(1)].strip("`'\".,;:)*_") == "" else None
        return None

    # --- addresses ------------------------------------------------------------------------------------------

    def ipv4_networks(self) -> None:
        self._v4 = [(m.start(), m.end()) for m in _IPV4.finditer(self.text)]
        for start, end in self._v4:
            m = _PREFIX_LENGTH.match(self.text, end, end + 12)
            if m is not None and int(m[1]) <= 32 and self._v4_left(start):
                self._network(start, m.end(1))

    def _network(self, start: int, end: int) -> None:
        try:
            network = str(ipaddress.ip_network(self.text[start:end], strict=False))
        except ValueError:
            return
        if self.take(start, end):
            self.add("cidr", NodeRef("Network", (network,), network), start, end)

    def _v4_left(self, start: int) -> bool:
        before = self.before(start)
        if before == "/":
            return self.before(start - 1) == "/"
        if before == ":":
            # "image:1.2.3.4" is a tag, "ip: 1.2.3.4" and "key:1.2.3.4," cannot be told from it.
            return self.before(start - 1) in " \n"
        return not (_WORD.match(before) or before in ".-${+")

    def _v4_right(self, end: int) -> bool:
        text, after = self.text, self.after(end)
        if after == ".":
            return not self.after(end + 1).isalnum()
        if after == "-":
            nxt = self.after(end + 1)
            return not nxt.isalnum() or _IPV4.match(text, end + 1) is not None
        return not (_WORD.match(after) or after == "+")

    def ipv4(self) -> None:
        text = self.text
        for start, end in self._v4:
            if not self._v4_left(start) and not (self.before(start) == "-" and self._v4_range(start)):
                continue
            if not self._v4_right(end) or _VERSION_BEFORE.search(text[max(0, start - 24) : start]):
                continue
            self._ip(start, end, text[start:end])

    def _v4_range(self, start: int) -> bool:
        return re.search(r"\d\.\d{1,3}-\Z", self.text[max(0, start - 8) : start]) is not None

    def _ip(self, start: int, end: int, written: str) -> None:
        try:
            address = str(ipaddress.ip_address(written))
        except ValueError:
            return
        if self.take(start, end):
            self.add("ip", NodeRef("IP", (address,), address), start, end)

    def ipv6(self) -> None:
        text = self.text
        for m in _IPV6.finditer(text):
            start = m.start()
            while start and m.start() - start < 4 and text[start - 1] in "0123456789abcdefABCDEF":
                start -= 1
            end = m.end()
            while end > start + 2 and (
                text[end - 1] == "." or (text[end - 1] == ":" and text[end - 2 : end] != "::")
            ):
                end -= 1
            before, after = self.before(start), self.after(end)
            if _WORD.match(before) or before in ":.-/$" or _WORD.match(after) or after == ":":
                continue
            written = text[start:end]
            bracketed = before == "[" and after == "]"
            # "a::b" is also how code writes a path of names.
            if not bracketed and (
                not any(c.isdigit() for c in written)
                or (
                    written.count(":") < 3
                    and written != "::1"
                    and not written.startswith(("2", "fe80", "fd", "fc", "FE80", "FD", "FC"))
                )
            ):
                continue
            try:
                address = str(ipaddress.IPv6Address(written))
            except ValueError:
                continue
            if bracketed:
                port = _PORT.match(text, end + 1)
                if port is not None and self._port_right(port.end(), True):
                    if 1 <= int(port[1]) <= 65535 and self.take(start - 1, port.end()):
                        self.add("host_port", endpoint("tcp", address, int(port[1])), start - 1, port.end())
                    continue
            length = _PREFIX_LENGTH.match(text, end, end + 12)
            if length is not None and int(length[1]) <= 128:
                self._network(start, length.end(1))
            elif written != "::":
                self._ip(start, end, written)

    def _port_right(self, end: int, mapped: bool) -> bool:
        after, then = self.after(end), self.after(end + 1)
        if after == ":":
            return mapped or not then.isalnum()
        if after in (".", "-"):
            return not then.isalnum()
        return not (_WORD.match(after) or after in "{$%")

    def host_ports(self) -> None:
        text = self.text
        for m in _PORT.finditer(text):
            port = int(m[1])
            if not 1 <= port <= 65535 or m[1][0] == "0":
                continue
            start = self._back(m.start(), _HOST_CHARS, _HOST_MAX)
            while start < m.start() and text[start] in ".-_":
                start += 1
            written = text[start : m.start()]
            host = normal_host(written) if written else None
            before = self.before(start)
            if host is None or before in "${%#:/\\~&+>}-._":
                continue
            if not self._host_port(written, host, before, m.start(), m.end(), port):
                continue
            if self.take(start, m.end()):
                self.add("host_port", endpoint("tcp", host, port), start, m.end())

    def _host_port(self, written: str, host: str, before: str, colon: int, end: int, port: int) -> bool:
        if host == "localhost":
            return self._port_right(end, False)
        if _is_v4(host):
            return self._port_right(end, True) and not _VERSION_BEFORE.search(
                self.text[max(0, colon - len(written) - 24) : colon - len(written)]
            )
        if _PLACEHOLDER.search(host) or not self._port_right(end, False):
            return False
        last = host.rpartition(".")[2]
        if "." in host:
            tld = (last.isalpha() and len(last) >= 2) or last.startswith("xn--")
            return tld and last not in _EXTENSIONS and port >= 10 and written == written.lower()
        # A bare name: in code only, in lower case, and with a port that is no version ("postgres:16",
        # "node:22").
        return (
            written == host
            and host[0].isalpha()
            and host not in _NO_HOST
            and (port >= 100 or port == 80)
            and before in " \t\n=@(,[;\"'`"
            and self.in_code(colon)
        )


def _is_v4(host: str) -> bool:
    return host[-1].isdigit() and host.count(".") == 3 and host.replace(".", "").isdigit()


def _url_node(scheme: str, body: str) -> NodeRef | None:
    """The endpoint of a URL of a scheme of the model; None if it is none, or a placeholder."""
    special = scheme in ("http", "https", "ws", "wss")
    try:
        # Other schemes have an opaque host for WHATWG: parsed as http, their host is checked like any other.
        url = ada_url.URL(f"{scheme if special else 'http'}://{body}")
        host = normal_host(url.hostname)
        # An explicit default port of http is dropped by the parser, and no other scheme has that default.
        port = (
            int(url.port)
            if url.port
            else (80 if not special and re.match(r"(?:[^/?#@]*@)?[^/?#@]*:80(?:[/?#]|\Z)", body) else None)
        )
        path = url.pathname
    except ValueError:
        return None
    if host is None or _PLACEHOLDER.search(host):
        return None
    if port is None:
        port = DEFAULT_PORTS.get(scheme)
    if port is None or not 1 <= port <= 65535 or not path.startswith("/"):
        return None
    return endpoint(scheme, host, port, path)
