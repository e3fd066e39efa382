"""What breaks without a service: what needs it, what is reached through it and what only starts after it are
told apart, in systemd's units, quadlets and Compose projects.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from taboot_pipelines.retrieval.answering.fact_answers import FactAnswer, answer_from_facts
from taboot_pipelines.retrieval.session import View
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

pytestmark = pytest.mark.slow

UNITS = {
    "edge.container": "[Container]\nImage=docker.io/library/traefik:v3.2\nPublishPort=443:443\n",
    "forge.container": "[Unit]\nAfter=edge.service\n[Container]\nImage=gitea/gitea:1.22\n",
    "wiki.container": "[Unit]\nAfter=edge.service vault.service\nRequires=vault.service\n"
    "[Container]\nImage=wikijs:2\n",
    "guard.container": "[Unit]\nWants=edge.service\nAfter=edge.service\n[Container]\nImage=guard:1\n",
    "vault.container": "[Container]\nImage=postgres:17\n",
    "cellar.container": "[Unit]\nBindsTo=vault.service\n[Container]\nImage=cellar:1\n",
    "tail.container": "[Unit]\nPartOf=vault.service\nAfter=vault.service\n[Container]\nImage=tail:1\n",
    "routes.yaml": """\
http:
  routers:
    forge: {rule: "Host(`forge.example.org`)", service: forge}
    board: {rule: "Host(`board.example.org`)", service: board}
  services:
    forge: {loadBalancer: {servers: [{url: "http://forge:3000"}]}}
    board: {loadBalancer: {servers: [{url: "http://10.0.0.7:8080"}]}}
""",
}
STACK = """\
services:
  ledger:
    image: ledger:1
    depends_on: [store]
  audit:
    image: audit:1
    depends_on:
      store: {condition: service_healthy}
  mirror:
    image: mirror:1
    depends_on: [store]
    links: [store]
  store:
    image: postgres:17
    healthcheck: {test: pg_isready}
"""


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    with FakeTei(dimension=16) as embedder:
        made = World(tmp_path_factory.mktemp("impact"), embedder.url)
        units = made.source("units", host="attic.example", interpret=True)
        stacks = made.source("stacks", "compose", host="cellar.example")
        files: dict[Path, str] = {units / name: text for name, text in UNITS.items()}
        files[stacks / "books" / "compose.yaml"] = STACK
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        made.ingest()
        yield made.kb()._session.view()
        made.workspace.close()


def ask(view: View, question: str) -> FactAnswer:
    answer = answer_from_facts(view, question)
    assert answer is not None and answer.found, (question, answer)
    return answer


def said(view: View, question: str) -> dict[str, str]:
    """What is said before each of the words that tell the lists apart: {word: the names before it}."""
    found = {}
    for sentence in ask(view, question).sentences:
        for word in (" start", " connect", " reached through ", " need", "Nothing"):
            if word in sentence.text:
                found[word.strip()] = sentence.text if word == "Nothing" else sentence.text.split(word)[0]
                break
        else:
            raise AssertionError(sentence.text)
    return found


@pytest.mark.parametrize(
    "question",
    ["what breaks if edge goes down?", "if edge is down, what is affected?", "what fails without edge"],
)
def test_an_order_breaks_nothing_and_what_a_proxy_serves_is_listed(view: View, question: str) -> None:
    lists = said(view, question)
    assert lists["need"] == "guard"
    assert "forge" in lists["reached through"] and "10.0.0.7" in lists["reached through"]
    assert "forge" in lists["start"] and "wiki" in lists["start"] and "guard" not in lists["start"]
    text = ask(view, question).text
    assert "forge.example.org" in text and "board.example.org" in text


def test_every_kind_of_need_is_one(view: View) -> None:
    lists = said(view, "what breaks if vault goes down?")
    assert set(lists) == {"need"}
    assert all(name in lists["need"] for name in ("wiki", "cellar", "tail"))


def test_a_condition_or_a_link_is_a_need_and_depends_on_alone_is_an_order(view: View) -> None:
    lists = said(view, "what breaks if store goes down?")
    assert "audit" in lists["need"] and "mirror" in lists["need"] and "ledger" not in lists["need"]
    assert lists["start"] == "ledger"


def test_what_only_starts_after_a_unit_does_not_depend_on_it(view: View) -> None:
    text = ask(view, "what depends on edge?").text
    assert text.startswith("guard depends on edge") and "start after edge" in text.split(". ")[1]
    text = ask(view, "what does forge depend on?").text
    assert text == "forge (systemd) declares no dependency; it starts after edge."
    assert ask(view, "does forge depend on edge?").text == "No: forge (systemd) only starts after edge."
    assert ask(view, "does wiki depend on vault?").text.startswith("Yes")


def test_what_compose_calls_a_dependency_is_listed_as_one(view: View) -> None:
    text = ask(view, "what depends on store?").text
    assert all(name in text.split(" depend on ")[0] for name in ("ledger", "audit", "mirror"))


def test_nothing_breaks_without_what_nothing_needs(view: View) -> None:
    nothing = "Nothing is declared to depend on ledger (books)."
    assert said(view, "what breaks if ledger goes down?") == {"Nothing": nothing}


def test_what_a_text_names_is_not_said_to_be_needed_by_nothing(tmp_path: Path) -> None:
    """What the text means by it is not read: that nothing depends on the service would be a guess."""
    made = World(tmp_path, None)
    stacks, notes = made.source("stacks", type="compose", host="hearth.lan"), made.source("notes")
    (stacks / "books").mkdir()
    (stacks / "books" / "compose.yaml").write_text(
        "services:\n  ledger: {image: 'ledger:1.2'}\n"
        "  abacus: {image: 'abacus:3', environment: {TO: 'http://press:80'}}\n"
        "  press: {image: 'press:1'}\n"
    )
    for n in range(4):
        (notes / f"note-{n}.md").write_text(f"# Note {n}\n\nAsk `ledger` before you pay.\n")
    (stacks / "books" / "README.md").write_text("# Books\n\n`ledger` has a hard dependency on `press`.\n")
    made.source("prose", path="stacks", include=["**/*.md"])
    made.ingest()
    made.workspace.close()
    view = made.kb()._session.view()
    names = "books/README.md, note-0.md, note-1.md and 2 more"
    for question in ("what depends on ledger?", "what breaks if ledger goes down?"):
        answer = ask(view, question)
        assert answer.text == f"No dependency on ledger (books) is declared; it is named in {names}."
        assert len({c.doc_id for s in answer.sentences for c in s.citations}) == 4
        assert answer.confidence < 0.7
    answer = ask(view, "what does ledger depend on?")
    assert answer.text == f"ledger (books) declares no dependency; it is named in {names}."
    assert answer.confidence < 0.7
    text = ask(view, "does ledger depend on abacus?").text
    assert text == "No: ledger (books) declares no dependency, so none on abacus."
    text = ask(view, "does ledger depend on press?").text
    both = "both are named in books/README.md"
    assert text == f"ledger (books) declares no dependency, so none on press; {both}."
    assert ask(view, "what depends on press?").text == "abacus connects to press."
    answer = ask(view, "what depends on abacus?")
    assert answer.text == "Nothing is declared to depend on abacus (books)." and answer.confidence > 0.9
