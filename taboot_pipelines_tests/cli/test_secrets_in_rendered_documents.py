"""Documents that are rendered from JSON, zip or PDF: a secret in them stays in the blob.

Their bytes hide a secret from a mask that looks at bytes: behind escapes of JSON, or compressed.
"""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

import pytest

from taboot_pipelines.cli import main
from taboot_pipelines_tests.documents.forms.office import docx_of, paragraph, pdf_of
from taboot_pipelines_tests.world import World, contents

#: Of GitHub's form, and a password; neither stands as such in the notebook's bytes.
TOKEN = "ghp_" + "Zx9Qw7" * 6
PASSWORD = "wunderbar/Kn4ck"
SAYS = (
    "The ledger proxy listens on 10.20.30.40 and forwards to ledger.example.org.",
    f"export GITHUB_TOKEN={TOKEN}",
    f"LEDGER_PASSWORD={PASSWORD}",
)


def escaped(text: str) -> str:
    """JSON that writes each letter of a secret as an escape."""
    made = json.dumps(text)
    for secret in (TOKEN, PASSWORD):
        made = made.replace(secret, "".join(f"\\u{ord(c):04x}" for c in secret))
    return made


def notebook() -> bytes:
    code = ",".join(escaped(f"{line}\n") for line in SAYS)
    output = '{"output_type": "stream", "name": "stdout", "text": [' + escaped(f"{SAYS[1]}\n") + "]}"
    return (
        '{"cells": [{"cell_type": "markdown", "metadata": {}, "source": "# Notebook of the ledger"},'
        f'{{"cell_type": "code", "source": [{code}], "outputs": [{output}]}}],'
        '"metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    ).encode()


def run(world: World, *arguments: str, **environment: str) -> str:
    """What the command line says, its exit status first."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
    variables = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("TABOOT_", "DAGSTER_"))},
        "TABOOT_HOME": str(world.home),
        "TABOOT_SOURCES": str(world.directory / "sources.yaml"),
        "TABOOT_TEI__URL": world.tei,
        "TABOOT_LOG__LEVEL": "DEBUG",
        **environment,
    }
    with (
        mock.patch.dict(os.environ, variables, clear=True),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as end,
    ):
        main(arguments)
        sys.exit(0)
    return f"{end.value.code}\n{out.buffer.getvalue().decode()}\n{err.getvalue()}"


def test_a_secret_in_a_rendered_document_stays_in_its_blob(world: World) -> None:
    folder = world.source("papers")
    (folder / "ledger.ipynb").write_bytes(notebook())
    (folder / "ledger.pdf").write_bytes(pdf_of([["Nothing here."], SAYS], title="PDF of the ledger"))
    body = "".join(map(paragraph, SAYS))
    (folder / "ledger.docx").write_bytes(docx_of(paragraph("Plan of the ledger") + body))
    (folder / "hosts.csv").write_text("host,address\natlas,10.20.30.41\n")
    world.source("beside", "files")
    # A credential in the environment that an entry could name.
    said = {"ingest": run(world, "ingest", LEDGER_TOKEN=TOKEN, LEDGER_PASSWORD=PASSWORD)}
    assert said["ingest"].startswith(("0\n", "None\n")), said["ingest"]
    for arguments in (
        ("search", "ledger proxy", "--json"),
        ("search", "ledger password", "--json"),
        ("ask", "Where does the ledger proxy listen?"),
        ("ask", "What is LEDGER_PASSWORD?", "--json"),
    ):
        said[" ".join(arguments)] = run(world, *arguments)
    kb = world.kb()
    shown: list[str] = []
    quoted: dict[str, list[str]] = {}
    for hit in kb.search("ledger proxy token password", limit=50).hits:
        explained = kb.explain(hit)
        assert explained.quote == hit.text or hit.url.endswith(".csv")
        quoted.setdefault(hit.url.rsplit(".", 1)[-1], []).append(explained.quote)
        said[f"explain {hit.chunk_id}"] = run(world, "explain", hit.chunk_id)
        shown += [hit._repr_html_() if hasattr(hit, "_repr_html_") else "", explained._repr_html_()]
        if hit.url.endswith(".pdf"):
            assert explained.line is None and explained.quotes[0].section in ("Page 1", "Page 2")
    edges = kb.edges().to_pylist()
    assert {e["url"].rsplit(".", 1)[-1] for e in edges} >= {"ipynb", "pdf", "docx"}
    for row in edges:
        explained = kb.explain(row)
        shown += [explained._repr_html_(), explained.model_dump_json()]
        if not row["url"].endswith(".csv"):
            for quote in explained.quotes:
                assert quote.line is None and "\\u" not in quote.text and "\x00" not in quote.text
                assert any(quote.text in " ".join(texts) for texts in quoted.values()), quote.text
        said[f"explain {row['edge_id']}"] = run(world, "explain", row["edge_id"], "--json")
    for kind in ("ipynb", "pdf", "docx"):
        text = "\n".join(quoted[kind])
        assert "10.20.30.40" in text and "GITHUB_TOKEN=*" in text and "LEDGER_PASSWORD=*" in text, text
    answer = kb.answer("Where does the ledger proxy listen?")
    assert answer.found
    for citation in answer.citations:
        assert citation.line is None
        if citation.url.endswith(".pdf"):
            assert citation.section == "Page 2" and "(Page 2)" in answer._repr_html_()
    shown.append(answer._repr_html_())
    for secret in (TOKEN, PASSWORD):
        for what, text in [*said.items(), *enumerate(shown)]:
            assert secret.casefold() not in text.casefold(), what
        held = [path for path, content in contents(world.home) if secret.casefold() in content]
        assert [path for path in held if not path.startswith("blobs/")] == []
