"""Rules of all readers: any text is read, and neither line ends nor comments change what it says."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.gold import config_f1
from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a import formats
from taboot_pipelines.extraction.tier_a.recognition import Format, FormatReader
from taboot_pipelines.model.records import FileView, SourceFacts
from taboot_pipelines_tests.extraction.tier_a.config.reading import check, facts, interpret, one

#: A name of each format, a beginning by which it is recognised, and words that it gives a meaning.
FORMATS = {
    "Dockerfile": (
        "FROM a\n",
        ["FROM", "ARG X=$X$X", "EXPOSE 1-9/udp", "ENV A", "\\", "<<EOF", "AS", "ONBUILD"],
    ),
    "x.service": (
        "[Unit]\n",
        ["[Service]", "After=a.service", "Wants=", "\\", "%i.service", "Requires=b@c.service"],
    ),
    "x.socket": (
        "[Socket]\n",
        ["ListenStream=80", "ListenStream=[::1]:80", "ListenDatagram=99999", "Service=%i"],
    ),
    "x.container": (
        "[Container]\n",
        [
            "Image=a:1",
            "PublishPort=1-2:3-4",
            "Network=host",
            "AddHost=a:::1",
            'Environment="A=http://b:1',
            "Pod=p.pod",
        ],
    ),
    "x.network": ("[Network]\n", ["Subnet=10.0.0.0/8", "NetworkName=%i", "Driver="]),
    "hosts": ("1.1.1.1 a\n", ["::1 x", "10.0.0.1", "a b", "# c", "1.2.3.4 a.b. ä", "0.0.0.0 x.y"]),
    "a.conf": (
        "[Interface]\nAddress=10.0.0.1/8\n",
        [
            "[Peer]",
            "AllowedIPs=::/0, 1.1.1.1/33",
            "Endpoint=a:1",
            "Endpoint=[::1]:0",
            "PublicKey=x",
            "[x]",
            "=",
        ],
    ),
    "p.yml": (
        "scrape_configs:\n",
        [
            "- job_name: a",
            "  static_configs:",
            "  - targets: [a:1, 'http://x', \"[::1]:9\"]",
            "  relabel_configs: [{}]",
        ],
    ),
    "k.yaml": (
        "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n",
        [
            "spec:",
            "  ports: [{port: 1, nodePort: x}]",
            "---",
            "kind: Pod",
            "  selector: {a: b}",
            "items: [1]",
            "{{ x }}",
        ],
    ),
    "i.yaml": (
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: a}\nspec:\n",
        [
            "  rules: [{host: a, http: {paths: [{path: /, backend: {service: {name: b}}}]}}]",
            "  tls: [{}]",
            "  backend: 1",
        ],
    ),
}


#: What marks structure in any of the formats.
PIECES = [*"\n \t=:#{}[]\"'\\$,;/-%<&*", "\r\n", *(word for _, words in FORMATS.values() for word in words)]
PIECES += [beginning for beginning, _ in FORMATS.values()]


@st.composite
def files(draw: st.DrawFn) -> tuple[str, str]:
    name = draw(st.sampled_from(sorted(FORMATS)))
    beginning, words = FORMATS[name]
    pieces = draw(st.lists(st.one_of(st.sampled_from(words), st.text(max_size=12)), max_size=12))
    joints = draw(st.sampled_from(["\n", "\r\n", " ", "\n  "]))
    return name, draw(st.sampled_from(["", "\ufeff"])) + beginning + joints.join(pieces)


@settings(max_examples=400, deadline=None)
@given(files())
@example(("hosts", "fe80::1%lo0 localhost\n1.1.1.1 a"))
def test_any_text_gives_a_result_or_typed_problems(file: tuple[str, str]) -> None:
    name, text = file
    first = interpret({name: text})
    assert first == interpret({name: text})


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(FORMATS)), st.text(max_size=200))
def test_text_that_is_no_such_format_gives_a_result(name: str, text: str) -> None:
    interpret({name: text})


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([(known, reader) for known in formats.FORMATS for reader in known.readers]),
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=12)), max_size=12),
)
def test_every_reader_reads_any_text(chosen: tuple[Format, FormatReader], pieces: list[str]) -> None:
    """Whatever recognises its files: the readers of a format that nobody gave an example above as well."""
    text = "".join(pieces)
    for path in ("x", *(f"x.{ending}" for ending in chosen[0].endings)):
        files = {path: text}
        view = FileView(frozenset(files), files.__getitem__)
        # A text that is no such format at all may be refused as a whole, by its code.
        with suppress(TabootError):
            check(chosen[1].interpret(path, view, SourceFacts("ns", "src", None, None)), files)


def gold_files() -> list[tuple[str, str]]:
    found = []
    for name in config_f1.sets():
        folder = config_f1.root(name)
        for line in (config_f1.GOLD / name / "labels.txt").read_text().splitlines():
            unit = line.split(" ")[0].rpartition(":")[0]
            if unit and (folder / unit).is_file() and (str(folder), unit) not in found:
                found.append((str(folder), unit))
    return found


@pytest.mark.parametrize(("folder", "unit"), gold_files())
def test_line_ends_and_comments_change_nothing(folder: str, unit: str) -> None:
    root = Path(folder)
    texts = {unit: (root / unit).read_bytes().decode()}
    for beside in (root / unit).parent.iterdir():
        if beside.is_file() and beside.name != "labels.txt":
            texts[beside.relative_to(root).as_posix()] = beside.read_bytes().decode()
    plain = {path: text.lstrip("\ufeff").replace("\r\n", "\n") for path, text in texts.items()}
    before = facts(interpret(plain)[unit])
    crlf = {path: text.replace("\n", "\r\n") for path, text in plain.items()}
    assert facts(interpret(crlf)[unit]) == before
    if not unit.endswith(".json"):
        lines = plain[unit].split("\n")
        # Dockerfiles have directives above.
        at = next((i for i, line in enumerate(lines) if line and not line.startswith("#")), 0)
        commented = "\n".join([*lines[:at], "# a comment: [x] 1.2.3.4 y", *lines[at:], "# another"])
        assert facts(interpret({**plain, unit: commented})[unit]) == before


LARGE = {
    "Dockerfile": "FROM a\n" + "ENV A=$A$A\nARG B=${A}${A}\nEXPOSE $A\n" * 20_000,
    "a/Dockerfile": "".join(f"FROM s{i - 1} AS s{i}\nENV V{i}=1\n" for i in range(1, 20_000)),
    "x.service": "[Unit]\n" + "After=a.service \\\n" * 100_000,
    "y.service": "[Unit]\n" + "After=a.service\nAfter=\n" * 20_000,
    "hosts": "10.0.0.1 a\n" + "0.0.0.0 ads.example.com\n" * 200_000,
    "b/hosts": "10.0.0.1 " + "name " * 100_000,
    "w.conf": "[Interface]\nAddress=10.0.0.1/8\n" + "[Peer]\nAllowedIPs=10.0.0.2/32\n" * 50_000,
    "p.yml": "scrape_configs:\n- job_name: a\n  static_configs:\n  - targets:\n" + "    - a:1\n" * 100_000,
    "bomb.yml": "scrape_configs: &a0 [x]\n"
    + "".join(f"k{i}: &a{i} [{f'*a{i - 1},' * 9}]\n" for i in range(1, 30)),
    "deep.yml": "apiVersion: v1\nkind: List\nitems: " + "[" * 100_000,
    "k.yml": "".join(
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: s{i}}}\n"
        f"spec: {{selector: {{app: a}}, ports: [{{port: 80}}]}}\n"
        f"---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p{i}, labels: {{app: a}}}}\n"
        f"spec: {{containers: []}}\n"
        for i in range(800)
    ),
}


@pytest.mark.parametrize("name", sorted(LARGE))
def test_what_is_too_large_is_read_in_bounded_time(name: str) -> None:
    before = time.monotonic()
    one(name, LARGE[name])
    assert time.monotonic() - before < 60
