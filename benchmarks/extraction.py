"""Main content of HTML pages: how good, how well positioned, how fast, beside the peers in the same process.

    python benchmarks/extraction.py [DATA_DIR]

DATA_DIR holds ``extraction-articles`` (4-gram shingle F1 against the article's body),
``extraction-trafilatura`` (segments that must survive or go) and ``linuxserver-docs-html-sample`` with
``linuxserver-docs-md`` (words of the Markdown source that survive). Peers: trafilatura as it comes,
trafilatura with ``favor_precision``, and all visible text. The default is ``../shared/data``.
"""

from __future__ import annotations

import gc
import gzip
import json
import re
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import trafilatura

from taboot_pipelines.documents.encoding import decode
from taboot_pipelines.documents.html_content import page_content
from taboot_pipelines.documents.html_markdown import join, render
from taboot_pipelines.documents.html_tree import parse
from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.documents.secrets.masking import mask

WORD = re.compile(r"\w+")
Extract = Callable[[str], str]


def shingles(text: str, n: int = 4) -> Counter[tuple[str, ...]]:
    words = WORD.findall(text)
    return Counter(tuple(words[max(0, i) : i + n]) for i in range(1 - n, len(words)))


def ours(source: str) -> str:
    return "\n".join(b.plain for b in page_content(source, parse(source)).blocks)


def visible(source: str) -> str:
    return "\n".join(b.plain for b in render(source, parse(source)))


EXTRACTORS: dict[str, Extract] = {
    "ours": ours,
    "trafilatura": lambda s: trafilatura.extract(s) or "",
    "trafilatura, favor_precision": lambda s: trafilatura.extract(s, favor_precision=True) or "",
    "all visible text": visible,
}


def articles(folder: Path) -> None:
    gold = json.loads((folder / "ground-truth.json").read_text())
    pages = {
        k: decode(gzip.decompress((folder / "html" / f"{k}.html.gz").read_bytes()), None, html=True)[0]
        for k in gold
    }
    print(f"extraction-articles, {len(pages)} pages, 4-gram shingles (macro average)")
    speed: dict[str, float] = {}
    for name, extract in EXTRACTORS.items():
        seconds = []
        for _ in range(3):
            start = time.process_time()
            texts = {k: extract(page) for k, page in pages.items()}
            seconds.append(time.process_time() - start)
        speed[name] = len(pages) / min(seconds)
        precisions, recalls = [], []
        for key, text in texts.items():
            want, got = shingles(gold[key]["articleBody"]), shingles(text)
            common = sum((want & got).values())
            precisions.append(common / max(1, sum(got.values())))
            recalls.append(common / max(1, sum(want.values())))
        p, r = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
        print(
            f"  {name:30} P {p:.3f}  R {r:.3f}  F1 {2 * p * r / (p + r):.3f}  {speed[name]:6.1f} pages/s"
            f" ({speed[name] / speed['ours']:.2f}x ours)"
        )


def segments(folder: Path) -> None:
    gold = json.loads((folder / "evaldata.json").read_text()).values()
    with tarfile.open(folder / "html.tar.xz") as tar:
        pages = {
            m.name.rsplit("/", 1)[-1]: decode(f.read(), None, html=True)[0]
            for m in tar
            if m.isfile() and (f := tar.extractfile(m))
        }
    print(f"extraction-trafilatura, {len(pages)} pages, segments")
    for name, extract in EXTRACTORS.items():
        kept = wanted = gone = unwanted = 0
        for entry in gold:
            text = extract(pages[entry["file"]])
            kept, wanted = kept + sum(s in text for s in entry["with"]), wanted + len(entry["with"])
            gone, unwanted = (
                gone + sum(s not in text for s in entry["without"]),
                unwanted + len(entry["without"]),
            )
        print(f"  {name:30} kept {kept}/{wanted}  removed {gone}/{unwanted}")


def documentation(data: Path) -> None:
    root = data / "linuxserver-docs-html-sample"
    peers: dict[str, Extract] = {
        "ours": lambda s: join(page_content(s, parse(s)).blocks)[0],
        "trafilatura markdown": (
            lambda s: (
                trafilatura.extract(
                    s,
                    output_format="markdown",
                    include_links=True,
                    include_tables=True,
                    include_formatting=True,
                )
                or ""
            )
        ),
    }
    print("linuxserver-docs-html-sample, words of the Markdown source (badges and diagrams left out)")
    for name, extract in peers.items():
        recall, precision = [], []
        for page in sorted(root.glob("**/index.html")):
            source = data / "linuxserver-docs-md" / "docs" / f"{page.parent.relative_to(root)}.md"
            if not source.is_file():
                continue
            text = re.sub(r"(?s)\A---.*?\n---\n|<!--.*?-->|```(?:mermaid|d2).*?```", "", source.read_text())
            text = re.sub(r"\[?!\[[^\]]*\]\([^)]*\)(?:\]\([^)]*\))?", "", text)
            want, got = (
                Counter(WORD.findall(t.lower()))
                for t in (text, extract(decode(page.read_bytes(), None, html=True)[0]))
            )
            common = sum((want & got).values())
            if common < 0.3 * sum(want.values()):
                continue  # the built page is of another version than its source
            recall.append(common / sum(want.values()))
            precision.append(common / max(1, sum(got.values())))
        print(
            f"  {name:30} recall {sum(recall) / len(recall):.3f}  precision"
            f" {sum(precision) / len(precision):.3f}  ({len(recall)} pages)"
        )


def speed(data: Path) -> None:
    print("whole parse_document (decoding, content, language, metadata, masking), one process")
    for name, pattern, mime in (
        ("site-ingress-nginx", "**/*.html", "text/html"),
        ("linuxserver-docs-md", "**/*.md", "text/markdown"),
        ("swag-reverse-proxy-confs", "*.sample", "text/x-nginx-conf"),
    ):
        blobs = [p.read_bytes() for p in sorted((data / name).glob(pattern))]
        if not blobs:
            continue
        start = time.process_time()
        for blob in blobs:
            parse_document(blob, path=name, mime=mime, charset=None, languages=[], max_chars=20_000_000)
        seconds = time.process_time() - start
        start = time.process_time()
        for blob in blobs:
            mask(blob.decode(), mime)
        masking = time.process_time() - start
        size = sum(map(len, blobs)) / 1e6
        print(
            f"  {name:30} {len(blobs) / seconds:7.1f} documents/s  {size / seconds:5.2f} MB/s  masking alone"
            f" {size / masking:5.2f} MB/s"
        )


def main() -> int:
    gc.set_threshold(100_000)  # as while a stage runs; for the peers as well
    data = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "shared" / "data")
    articles(data / "extraction-articles")
    segments(data / "extraction-trafilatura")
    documentation(data)
    speed(data)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
