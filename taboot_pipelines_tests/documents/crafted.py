"""Pages made to exhaust a parser, as (before, repeated, after), and a process that reads them within limits.

The process forks for each text: a child that asks for too much memory or processor time is ended by the
kernel, and the machine and the other tests go on.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.sources import document_forms

CPU_SECONDS = 60
ADDRESS_BYTES = 6 << 30

Shape = tuple[str, str, str]

HTML: list[Shape] = [
    # Tables: padding, spans, nesting
    ("<table><tr>" + "<td>x" * 2000, "<tr><td>y", "</table>"),
    ("<table>", "<tr><td colspan=99999 rowspan=99999>y", "</table>"),
    ("<table><tr>", "<td>x", ""),
    ("<table><tr>", "<td><div>x</div>", ""),
    ("<table>", "<tr><td>x<td>y", ""),
    ("<table>", "<tbody><tr><td>x", ""),
    ("<table>", "<caption>x", "<tr><td>y</table>"),
    ("", "<table><tr><td>x<td>y</table>", ""),
    ("", "<table><tr><td>x" * 30 + "</td></tr></table>" * 30, ""),
    ("", "<table><tr><td>a<td>" * 24 + "x" + "</table>" * 24, ""),
    ("<ul><li>" * 40 + "<table>", "<tr><td>x<td>y", ""),
    # Attributes
    ("<p ", "a ", ">hello"),
    ("<p ", "=\"'", ">hello"),
    ("<p class='", "a ", "'>hello"),
    ("<p class='", "nav-", "'>hello"),
    ("<p style='", "display: ", "'>hello"),
    ("<p title='", "&amp;", "'>hello"),
    ("", "<p a=1 b=2 c=3>x", ""),
    ("<meta name=generator content='", "jekyll ", "'>x"),
    ("<meta name=keywords content='", "a,", "'>x"),
    ("<a href=http://x.y/>", "<img alt=hello>", "</a>"),
    ("<a href='http://", "x", "'>y</a>"),
    # Depth
    ("", "<div>", "x"),
    ("", "<b>x", ""),
    ("", "<a href='http://a.b/'>x" * 90 + "</a>" * 90, ""),
    ("", "<code>x" * 90 + "</code>" * 90, ""),
    ("", "<blockquote>x" * 90 + "</blockquote>" * 90, ""),
    ("<blockquote>" * 90 + "<pre>", "a\n", "</pre>"),
    ("<ol start=999999><li>" * 49 + "<pre>", "a\n", "</pre>"),
    ("", "<ul><li>x" * 45 + "</ul>" * 45, ""),
    ("", "<ul><li>x", ""),
    ("", "<details><summary>x", ""),
    ("<header>" * 90, "<b>x</b>", ""),
    ("<p>" + "<button>" * 90, "<div>", ""),
    ("<ul><div>" + "<span>" * 90, "<li>", ""),
    ("<div>" * 50, "</p>", "x"),
    # Markup that does not close
    ("", "<", ""),
    ("", "<a ", ""),
    ("", "<!", ""),
    ("", "<!--", ""),
    ("", "<!-->-", ""),
    ("", "<?", ""),
    ("", "</", ""),
    ("", "<![CDATA[", ""),
    ("", '<a b="', ""),
    ("", "<a b='\"", ""),
    ("", "<a \"'>", ""),
    ("", '<a ">"', "'"),
    ("<", "a", ">x"),
    ("<a", " ", "x"),
    ("", "<script>", ""),
    ("<script>", "</scrip", ""),
    ("", "<title>", ""),
    ("", "<textarea><title><svg><math><template>", ""),
    ("", "<svg/>", ""),
    # Text and entities
    ("", "&amp;", ""),
    ("", "&x", ""),
    ("", "&#1114111;", ""),
    ("", "&CounterClockwiseContourIntegral;", ""),
    ("x", " ", "y"),
    ("x", "\u00a0", "y"),
    ("x", "\u200b", "y"),
    ("x", "<br> ", "y"),
    ("<pre>x", "\n", "y"),
    ("<pre>x", "<br>", "y"),
    ("<pre>", "<span>x</span>", ""),
    ("<pre>", "`", ""),
    ("<pre>", "`\n", ""),
    ("<code>", "`", "</code>"),
    ("<p>", "\x00", "x"),
    ("<p>e", "\u0301", ""),
    # Many of one kind
    ("", "<p>x", ""),
    ("", "<p>some words that are here in a row ", ""),
    ("", "<li>x", ""),
    ("<dl>", "<dt>x<dd>y", ""),
    ("", "<pre>x</pre>", ""),
    ("", "<a href=http://x.y/>z</a>", ""),
    ("", "<a href=#>#</a>", ""),
    ("", "<b>x<i>y</b>z</i>", ""),
    ("", "<main>x</main>", ""),
    ("", "<h1><b></b>", "x"),
    ("", "<div class=markdown-body id=mw-content-text>x", ""),
    ("", "<time class=published datetime=2020>", "x"),
    ("", "<link rel=canonical href=x>", "x"),
    ("<select>", "<option>x", ""),
    # JSON-LD
    ("<script type='application/ld+json'>", "[", "</script>x"),
    ("<script type='application/ld+json'>{\"a\":", "9", "}</script>x"),
    ("<script type='application/ld+json'>{\"@type\":[", '"a",', '"b"]}</script>x'),
]

#: For everything that reads text: Markdown, its front matter, chunks, the language, mentions.
TEXT: list[Shape] = [
    *(("x", mark, "x") for mark in " \t\n\r\v\u00a0\u2028\x85-=*_`~>#|<[](){}.:/@&!1a'é中ก😀"),
    *(("", mark, "x") for mark in " \t\n\r\v\u00a0\u2028\x85-=*_`~>#|<[](){}.:/@&!1a'é中ก😀"),
    *(
        ("e", mark, "x")
        for mark in ("\u0301", "\u200d", "🇩", "👩\u200d", "\u0378", "\x01", "\u202e", "\u1100")
    ),
    *(("a\n", mark, "x\n") for mark in ("= ", "- ", "* ", "> ", " \n", "\r\n", "\t\n", "| ", ": ", "# ")),
    *(("", line + "\n", "") for line in ("```", "```\n~~~", "> ```", "~~~~", "`a", "<a", "](a", "[a](b")),
    *(("", line + "\n", "") for line in ("- x", "1. x", "# a", "a\n=", "a\n---", "a\n", "- - - x", "    x")),
    *(
        ("", line + "\n", "")
        for line in ("<pre>\n", "<script>x\n", "<!--", "<ul>", "<div", "!!! note\n    x")
    ),
    *(
        ("", line + "\n", "")
        for line in ("|a|b|\n|-|-|", "|-|", "|", "-:| ", "# " + "a" * 500, "> " * 50 + "x")
    ),
    ("|a|b|\n|-|-|\n", "|c|d|\n", ""),
    ("a|\n|", " -", "x\n"),
    ("    x\n", "\n", ""),
    ("````\n", "```\n", ""),
    (">" * 100 + "```\n", "> x\n", ""),
    *(("", word, "") for word in ("[a](", "![", "](", "*a ", "**a*b", "_a_*", "<h1 a", "<b>", "` ", "A b. ")),
    *(("# a", word, "x") for word in (" #", " ", " {#", "{", "*a", "[a](", "![a](", "<", "`")),
    *(
        ("", word, "")
        for word in ("http://a.b/ ", "http://", "http://a](", "http://a@", "redis://a:1 ", "a.b://")
    ),
    *(("http://a.b/", mark, "") for mark in "c().%é"),
    ("redis://", "a@", ":1"),
    ("", "a", "://b"),
    *(("", word, "") for word in ("10.0.0.1 ", "1.1.", "10.0.0.0/8-", "fe80::1 ", "a:", "a.b:80 ", ":80")),
    ("", "version: ' ' (1.2.3.4 ", ""),
    ("", "a-" * 120 + ":80 ", ""),
    ("", ".-" * 120 + "a:80 ", ""),
    *(
        ("", word, "")
        for word in ("image: a/b:c\n", "a/", "ghcr.io/a/b ", "lscr.io/", "a@sha256:", "FROM a\n")
    ),
    *(("image: ", word, "!") for word in ("a/", "a-", "a__b", "a.-")),
    ("docker run ", "-e a=b ", ""),
    ("", "docker run " + "-d " * 30, ""),
    ("", "docker run \\\n ", ""),
    # Front matter
    ("---\n", "a: b\n", "---\nx"),
    ("---\n", "a: b\n", ""),
    ("---\n", "--- x\n", ""),
    ("---\n---", " \t", "x\n"),
    ("---\n", "[", "\n---\nx"),
    ("---\n", "{a: ", "\n---\nx"),
    ("---\na: &a ", "x", "\n---\nx"),
    ("---\ntags: [", "a,", "]\n---\nx"),
    ("---\na: |\n", " x\n", "---\n"),
    ("---\n", "? ", "\n---\n"),
    ("---\na: '", "''", "'\n---\n"),
]


def numbered(length: int) -> Iterator[tuple[str, str]]:
    """(parser, text) of pages whose parts differ."""
    attributes = "".join(f"a{i}=1 " for i in range(length // 8))
    yield "html", f"<p {attributes}>hello"
    yield "html", f"<div><svg><p {attributes}></svg>hello"
    # The depth at which elements are left out of the tree.
    yield "html", "<div>" * 150 + f"<p {attributes}>hello"
    steps = int((2 * length) ** 0.5)
    yield "html", "<pre>" + "".join("`" * k + " " for k in range(1, steps))
    yield "text", "".join("`" * k + " " for k in range(1, steps))
    yield "text", "".join("`" * k + "\n" for k in range(3, steps))
    yield "text", "".join("`" * k + "\n" for k in range(steps, 2, -1))
    yield "text", "".join(" " * (2 * k) + "- x\n" for k in range(int(length**0.5)))
    yield "text", "---\n" + "".join(f"k{i}: v\n" for i in range(length // 10)) + "---\nx"
    yield "text", "---\n" + "".join(" " * k + "a:\n" for k in range(steps)) + "---\nx"


@dataclass(frozen=True)
class Spent:
    """What one text took: processor seconds, and megabytes beyond what the process had."""

    seconds: float
    megabytes: float
    #: The code of the refusal, ``ok``, or what went wrong.
    outcome: str


class Reader:
    """The process; a context manager."""

    def __enter__(self) -> Reader:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def read(self, parser: str, text: str) -> Spent:
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps([parser, text]) + "\n")
        process.stdin.flush()
        return Spent(*json.loads(process.stdout.readline()))


def _parsers() -> dict[str, Callable[[str], object]]:
    from taboot_pipelines.crawl.discovery.sitemaps import parse_sitemap
    from taboot_pipelines.documents import encoding, parse
    from taboot_pipelines.documents.chunking import Chunker
    from taboot_pipelines.extraction.tier_a.prose.finding import find_mentions
    from taboot_pipelines.extraction.tier_a.regions import regions
    from taboot_pipelines.settings import ChunkingSettings

    # Masking has bounds and tests of its own.
    parse.mask = lambda text, _mime: text
    chunker = Chunker(ChunkingSettings())

    def document(text: str, mime: str) -> str:
        return parse.parse_document(
            text.encode("utf-8", "surrogateescape"),
            path="page",
            mime=mime,
            charset=None,
            languages=(),
            max_chars=20_000_000,
            forms=document_forms(),
        ).text

    def text(text: str) -> None:
        for mime in ("text/markdown", "text/x-rst", "text/plain"):
            with contextlib.suppress(TabootError):
                document(text, mime)
        chunker.chunk(text, "text/markdown")
        chunker.chunk(text, "application/yaml")
        find_mentions(text)
        find_mentions(text, code=True)
        regions(text)

    return {
        "html": lambda page: document(page, "text/html"),
        "text": text,
        "sitemap": lambda page: parse_sitemap(page.encode(), "sitemap"),
        "bytes": lambda page: encoding.decode(page.encode("latin-1"), None),
    }


def _measured(parse: Callable[[str], object], text: str) -> list[Any]:
    """Runs in the child."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    try:
        parse(text)
        outcome = "ok"
    except TabootError as error:
        outcome = error.code
    except BaseException as error:  # whatever it is, the test is to say it
        outcome = f"raised {type(error).__name__}"
    spent = time.process_time() - start
    return [spent, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, outcome]


def main() -> None:
    parsers = _parsers()
    # Libraries and models are loaded before the first fork.
    for parser, page in (
        ("html", "<article><p>" + "A sentence of some words. " * 20),
        ("text", "A b. " * 99),
    ):
        parsers[parser](page)
    for line in sys.stdin:
        parser, text = json.loads(line)
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                os.write(into, json.dumps(_measured(parsers[parser], text)).encode())
            os._exit(0)
        os.close(into)
        with os.fdopen(out, "rb") as pipe:
            answer = pipe.read().decode()
        os.waitpid(child, 0)
        print(answer or json.dumps([CPU_SECONDS, 0, "was ended by the kernel"]), flush=True)


if __name__ == "__main__":
    main()
