"""What kind of text a blob is, by its declared type, its name and its first bytes."""

from __future__ import annotations

import codecs
import re

HTML = "text/html"
MARKDOWN = "text/markdown"
PLAIN = "text/plain"
BINARY = "application/octet-stream"
NOTEBOOK = "application/x-ipynb+json"
PDF = "application/pdf"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

_BY_SUFFIX = {
    "md": MARKDOWN,
    "markdown": MARKDOWN,
    "mdown": MARKDOWN,
    "mkd": MARKDOWN,
    "mdx": MARKDOWN,
    "html": HTML,
    "htm": HTML,
    "xhtml": HTML,
    "shtml": HTML,
    "txt": PLAIN,
    "text": PLAIN,
    "log": PLAIN,
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "json": "application/json",
    "jsonl": "application/json",
    "ndjson": "application/json",
    "json5": "application/json",
    "jsonc": "application/json",
    "hujson": "application/json",
    "toml": "application/toml",
    "xml": "text/xml",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "conf": "text/x-nginx-conf",
    "nginx": "text/x-nginx-conf",
    "vhost": "text/x-nginx-conf",
    "ini": "text/x-ini",
    "cfg": "text/x-ini",
    "properties": "text/x-ini",
    "env": "text/x-dotenv",
    # Units of systemd and of its network, and quadlets of Podman (systemd.syntax(7)).
    **dict.fromkeys(
        (
            *(
                "service",
                "timer",
                "socket",
                "mount",
                "automount",
                "swap",
                "path",
                "target",
                "slice",
                "nspawn",
            ),
            *("network", "netdev", "link"),
            *("container", "pod", "volume", "kube", "image", "build"),
        ),
        "text/x-ini",
    ),
    "sh": "text/x-shellscript",
    "bash": "text/x-shellscript",
    "zsh": "text/x-shellscript",
    "fish": "text/x-shellscript",
    "py": "text/x-python",
    "tf": "text/x-hcl",
    "hcl": "text/x-hcl",
    "tfvars": "text/x-hcl",
    "nomad": "text/x-hcl",
    "alloy": "text/x-hcl",
    "dockerfile": "text/x-dockerfile",
    "caddyfile": "text/x-caddyfile",
    "caddy": "text/x-caddyfile",
    "nix": "text/x-nix",
    "jsonnet": "text/x-jsonnet",
    "libsonnet": "text/x-jsonnet",
    "cue": "text/x-cue",
    "pp": "text/x-puppet",
    "epp": "text/x-puppet",
    "ps1": "text/x-powershell",
    "mk": "text/x-makefile",
    "zone": "text/dns",
    "cnf": "text/x-ini",
    # Templates of formats that their names do not tell, and configuration in formats of single programs.
    **dict.fromkeys(("j2", "jinja", "jinja2", "sls", "tmpl", "tpl", "erb"), "text/x-template"),
    **dict.fromkeys(("nft", "rules", "rsc", "vcl", "acl", "cron", "config"), "text/x-config"),
    "rst": "text/x-rst",
    "adoc": "text/asciidoc",
    "asciidoc": "text/asciidoc",
    "ipynb": NOTEBOOK,
    "vtt": "text/vtt",
    "srt": "application/x-subrip",
    "sbv": "text/x-sbv",
    "json3": "application/vnd.taboot.timedtext+json",
    "srv1": "application/vnd.taboot.timedtext+xml",
    "srv2": "application/vnd.taboot.timedtext+xml",
    "srv3": "application/vnd.taboot.timedtext+xml",
    "eml": "message/rfc822",
}
#: Types whose bytes are those of another format, which they are held in. Their names refine that format.
_WITHIN = {"docx": DOCX, "docm": DOCX, "dotx": DOCX, "dotm": DOCX}
_BY_NAME = {
    "dockerfile": "text/x-dockerfile",
    "containerfile": "text/x-dockerfile",
    "caddyfile": "text/x-caddyfile",
    "makefile": "text/x-makefile",
    "justfile": "text/x-makefile",
    "vagrantfile": "text/x-ruby",
    "jenkinsfile": "text/x-groovy",
    **dict.fromkeys(("procfile", "crontab", "hosts"), "text/x-config"),
    "readme": PLAIN,
    "license": PLAIN,
    ".env": "text/x-dotenv",
}
#: Names that a variant may follow: ``Dockerfile.dev``.
_WITH_VARIANTS = ("dockerfile", "containerfile", "makefile", "caddyfile")
#: Endings that say how a file is used, not what it is.
_OUTER = ("sample", "example", "template", "tmpl", "tpl", "dist", "disabled", "bak", "orig", "j2", "in")
_ALIASES = {
    "application/xhtml+xml": HTML,
    "text/x-markdown": MARKDOWN,
    "text/yaml": "application/yaml",
    "text/x-yaml": "application/yaml",
    "application/x-yaml": "application/yaml",
    "application/vnd.yaml": "application/yaml",
    "text/json": "application/json",
    "application/xml": "text/xml",
    "application/x-sh": "text/x-shellscript",
    "text/toml": "application/toml",
    "application/x-pdf": PDF,
    "application/vnd.jupyter": NOTEBOOK,
    "application/vnd.jupyter.notebook": NOTEBOOK,
    "application/vnd.ms-word.document.macroenabled.12": DOCX,
    "application/vnd.openxmlformats-officedocument.wordprocessingml.template": DOCX,
    "text/srt": "application/x-subrip",
    "application/srt": "application/x-subrip",
}
_OTHER_TEXT = frozenset(("application/javascript", "application/sql", "message/rfc822"))
_UNSPECIFIC = ("", PLAIN, BINARY, "binary/octet-stream", "application/unknown", "application/x-unknown")
_ZIP = "application/zip"
_MAGIC = (
    (b"%PDF-", PDF),
    (b"PK\x03\x04", _ZIP),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x7fELF", BINARY),
    (b"\x89PNG\r\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"7z\xbc\xaf", "application/x-7z-compressed"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1", "application/msword"),
    (b"\xca\xfe\xba\xbe", BINARY),
    (b"OggS\x00", "application/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
    (b"\x00asm", "application/wasm"),
)
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_LOOKS_HTML = re.compile(
    rb"\s*(?:<!--.{0,2000}?-->\s*)?<(?:!doctype html|html[\s>]|head[\s>]|body[\s>])", re.I | re.S
)
_SNIFF = 8192
#: Resources of an API as this product stores them; what stands behind the prefix says which.
RESOURCE = "application/vnd.taboot."
#: Further types whose documents are Markdown that a form renders from their bytes.
RENDERED: frozenset[str] = frozenset(
    {NOTEBOOK, PDF, DOCX, "message/rfc822", "text/vtt", "application/x-subrip", "text/x-sbv"}
)
_READABLE = frozenset(_BY_SUFFIX.values()) | frozenset(_ALIASES.values()) | _OTHER_TEXT


def magic_of(data: bytes) -> str | None:
    """The type that the first bytes prove, or None."""
    return next((mime for magic, mime in _MAGIC if data.startswith(magic)), None)


def _proven(path: str, data: bytes, stated: str) -> str | None:
    """The same, where a zip is what it is stated or named to be, if that is a format of zips."""
    proven = magic_of(data)
    if proven != _ZIP:
        return proven
    ending = path.split("#", 1)[0].rsplit(".", 1)[-1].lower()
    return stated if stated in _WITHIN.values() else _WITHIN.get(ending, proven)


def by_name(path: str) -> str | None:
    """The type that the file's name says, or None: ``app.conf.sample`` is a conf, ``Dockerfile.dev`` a
    Dockerfile. Of what a file holds (``a.eml#1-notes.txt``) its own name says it, of a URL that before the
    ``#``."""
    whole = path.split("#", 1)[0] if "://" in path else path.rpartition("#")[2]
    name = whole.split("?", 1)[0].rstrip("/").rsplit("/", 1)[-1].lower()
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name.startswith(".env."):
        return "text/x-dotenv"
    parts = name.split(".")
    while len(parts) > 2 and parts[-1] in _OUTER:
        parts.pop()
    if len(parts) > 1 and (found := _BY_SUFFIX.get(parts[-1])):
        return found
    return _BY_NAME.get(parts[0]) if parts[0] in _WITH_VARIANTS else None


def is_binary(data: bytes, declared_charset: str | None = None) -> bool:
    """Whether the bytes cannot be text: they have a NUL in the first 8 KiB, and no wide encoding is marked or
    declared."""
    if data.startswith(_WIDE) or (declared_charset or "").lower().replace("_", "-").startswith(
        ("utf-16", "utf-32")
    ):
        return False
    return b"\x00" in data[:_SNIFF]


def mime_of(path: str, data: bytes, declared: str | None) -> str:
    """The media type, without parameters, in lower case.

    A specific declaration wins; ``text/plain`` and the like are refined by the file's name, then by its
    bytes. Bytes that prove a binary format win over everything, but a zip may be of a format that is a zip.
    A blob with NULs and no known format is ``application/octet-stream``.
    """
    stated = (declared or "").split(";", 1)[0].strip().lower()
    stated = _ALIASES.get(stated, stated)
    if proven := _proven(path, data, stated):
        return proven
    if stated == DOCX or (stated == PDF and b"%PDF-" not in data[:1024]):
        stated = ""  # said of bytes that are none
    if stated not in _UNSPECIFIC and "/" in stated:
        return stated
    named = by_name(path)
    if named is None and _LOOKS_HTML.match(data[:_SNIFF]):
        named = HTML
    if named != HTML and is_binary(data):
        return BINARY
    return named or PLAIN


def is_text(mime: str) -> bool:
    """Whether documents of this type can be read."""
    return mime.startswith("text/") or mime.endswith(("+json", "+yaml", "+xml")) or mime in _READABLE


def has_form(mime: str) -> bool:
    """Whether documents of this type are Markdown that one of ``documents.forms`` renders."""
    return mime in RENDERED or mime.startswith(RESOURCE)


def reads_as(mime: str) -> str:
    """As what a document of this type is chunked, masked and searched for links."""
    return MARKDOWN if has_form(mime) else mime


def is_rendered(mime: str) -> bool:
    """Whether documents of this type are rendered from their blob rather than decoded."""
    return "html" in mime or has_form(mime)


def is_code(mime: str) -> bool:
    """Whether the whole document is code (YAML, JSON, a conf), not text with code in it."""
    return reads_as(mime) not in (HTML, MARKDOWN, PLAIN, "text/x-rst") and "html" not in mime
