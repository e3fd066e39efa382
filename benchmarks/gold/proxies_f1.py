"""The readers of proxies' configuration against their labels: precision, recall and F1 of their routes.

    python benchmarks/gold/proxies_f1.py [--missing]

``haproxy.jsonl`` and ``traefik.jsonl`` hold, for each file of ``shared/data``, the routes that it states,
by the reading of ``docs/formats.md``: (host, location, path, tls, scheme, target, port). They were made by
reading the files: those named ``open`` (of HAProxy every second file, in the order of their paths) before
there was a reader, those named ``kept`` after its first version was written, which was then scored once on
them. A file of Caddy's tests holds a Caddyfile and what Caddy itself makes of it as JSON: both must say the
same, and what the JSON says is taken for the label. ``--missing`` prints what was found in vain and what
was missed.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gold.check import DATA, GOLD
from taboot_pipelines.extraction.tier_a.config_files import ConfigFiles
from taboot_pipelines.model.records import FileView, Interpretation, SourceFacts, UnitSpec

SETS = {"haproxy": "haproxy-configs", "traefik": "traefik-configs"}

#: (host, location, path, tls, scheme, target, port)
Route = tuple[Any, ...]
_FIELDS = ("host", "location", "path", "tls", "scheme", "target", "port")


def interpreted(files: Mapping[str, str], main: str) -> Interpretation:
    """What a file says, as a file of a source does."""
    view = FileView(frozenset(files), files.__getitem__)
    return ConfigFiles().interpret(UnitSpec(main, (main,)), view, SourceFacts("default", "proxy"))


def routes(said: Interpretation) -> set[Route]:
    """The routes of an interpretation."""
    found = set()
    for edge in said.edges:
        if edge.type == "ROUTES_TO":
            target = edge.end.key[1]
            p = edge.properties
            found.add(
                (
                    p.get("host"),
                    p.get("location"),
                    p.get("path"),
                    p["tls"],
                    p.get("scheme"),
                    target,
                    p.get("port"),
                )
            )
    return found


def labelled(name: str) -> Iterable[tuple[str, str, set[Route]]]:
    """(half, file, its routes) of a set of labels."""
    for line in (GOLD / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        label = json.loads(line)
        yield (
            label["half"],
            label["file"],
            {tuple(route[field] for field in _FIELDS) for route in label["routes"]},
        )


def halves(text: str) -> tuple[str, str]:
    """The Caddyfile of a test of Caddy's, and what Caddy answers: JSON, or why it refuses the file."""
    caddyfile, answer = re.split(r"\n-{10}[ \t]*\n", text, maxsplit=1)
    return caddyfile + "\n", answer


def adapted() -> Iterable[tuple[str, str, set[Route], set[Route]]]:
    """(half, file, routes of its Caddyfile, routes of its JSON) of Caddy's tests that end well."""
    names = sorted(p.name for p in (DATA / "caddy-adapt").iterdir() if p.name != "NOTE.md")
    for number, name in enumerate(names):
        text = (DATA / "caddy-adapt" / name).read_text(encoding="utf-8")
        caddyfile, answer = halves(text)
        if not answer.lstrip().startswith("{"):
            continue
        said = routes(interpreted({"Caddyfile": caddyfile}, "Caddyfile"))
        half = "open" if number % 2 else "kept"
        yield half, name, said, routes(interpreted({"caddy.json": answer}, "caddy.json"))


def main(argv: list[str]) -> int:
    scores: dict[tuple[str, str], Counter[str]] = {}
    for name, folder in SETS.items():
        if not (GOLD / f"{name}.jsonl").exists():
            continue
        for half, file, wanted in labelled(name):
            path = DATA / folder / file
            said = routes(interpreted({path.name: path.read_text(encoding="utf-8")}, path.name))
            _count(scores, (name, half), file, said, wanted, "--missing" in argv)
    for half, file, said, wanted in adapted():
        _count(scores, ("caddy", half), file, said, wanted, "--missing" in argv)
    for (name, half), count in sorted(scores.items()):
        hit, vain, missed = count["hit"], count["vain"], count["missed"]
        precision = hit / (hit + vain) if hit + vain else 1.0
        recall = hit / (hit + missed) if hit + missed else 1.0
        f1 = 2 * hit / (2 * hit + vain + missed) if hit + vain + missed else 1.0
        print(
            f"{name} {half}: {count['files']} files, {hit + missed} routes:"
            f" precision {precision:.3f}, recall {recall:.3f}, F1 {f1:.3f}"
        )
    return 0


def _count(
    scores: dict[tuple[str, str], Counter[str]],
    key: tuple[str, str],
    file: str,
    said: set[Route],
    wanted: set[Route],
    show: bool,
) -> None:
    scores.setdefault(key, Counter()).update(
        files=1, hit=len(said & wanted), vain=len(said - wanted), missed=len(wanted - said)
    )
    if show:
        for what, found in (("in vain", said - wanted), ("missed", wanted - said)):
            for route in sorted(map(str, found)):
                print(f"  {key[0]} {file}: {what} {route}")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
