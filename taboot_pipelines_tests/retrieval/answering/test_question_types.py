"""What type of question is asked: the fitted model, its data, and what it may explain."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.answering import question_types
from taboot_pipelines.retrieval.answering.config import Config
from taboot_pipelines.retrieval.answering.entity_linking import Linked, Mention, Thing, words_of
from taboot_pipelines.retrieval.answering.fact_answers import Facts
from taboot_pipelines.retrieval.answering.question import Question
from taboot_pipelines.retrieval.answering.question_types import FACTS, Exemplar, exemplars, guess, model


def test_the_model_is_fitted_on_the_wordings_of_the_package() -> None:
    """Else run ``python benchmarks/question_types.py --write``."""
    assert model().fitted_on == question_types.digest()
    assert set(model().types) == {e.type for e in exemplars()} == set(question_types.vocabulary())


def test_each_wording_has_one_type_and_no_slot_left() -> None:
    seen: dict[str, str] = {}
    for exemplar in exemplars():
        assert "<" not in exemplar.text and exemplar.text.strip(), exemplar
        assert seen.setdefault(exemplar.text, exemplar.type) == exemplar.type, exemplar


def test_a_type_names_kinds_of_fact_that_there_are() -> None:
    house = SimpleNamespace(index=None)
    known = set(Facts(house, Config(house.index))._handlers)
    assert set(FACTS) <= set(model().types)
    assert {kind for kinds in FACTS.values() for kind in kinds} <= known


@pytest.mark.parametrize(
    ("masked", "of"),
    [
        ("suppose the service is gone, who suffers", "impact_of"),
        ("anything listening at port 8443 already?", "service_on_port"),
        ("on which of our networks does the service sit", "networks_of"),
        ("steps for moving the service to another disk", "howto"),
        ("under what address do people open the service in the browser", "hostname_of"),
    ],
)
def test_wordings_of_no_exemplar_are_told(masked: str, of: str) -> None:
    assert Exemplar(of, masked) not in set(exemplars())
    assert of in [g.type for g in guess(masked)]


def test_probabilities_are_of_all_types_and_the_best_are_tried() -> None:
    texts = ["which services need the service", "", "???", "¿qué depende del service?"]
    vectors = np.zeros((len(texts), len(model().by_vector) - 1), dtype=np.float32)
    for given in (None, vectors):
        told = model().probabilities(given, texts)
        assert told.shape == (len(texts), len(model().types))
        np.testing.assert_allclose(told.sum(axis=1), 1, rtol=1e-5)
    best = guess("which services need the service")
    assert 1 <= len(best) <= 3
    assert [g.probability for g in best] == sorted((g.probability for g in best), reverse=True)


def test_words_alone_tell_where_no_encoder_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Missing:
        def embed(self, texts: list[str]) -> None:
            raise TabootError("E_MODEL", "not installed")

    monkeypatch.setattr(question_types, "_encoder", Missing)
    question_types._guess.cache_clear()
    try:
        assert guess("what does the service depend on, and what else")[0].type == "dependencies_of"
    finally:
        question_types._guess.cache_clear()


def test_a_long_text_is_of_no_type() -> None:
    assert guess("which service needs it " * 20) == []


def asked(text: str, name: str, kind: str = "service") -> list[str]:
    """The kinds of fact that a question asks for which names one thing."""
    linked = Linked(text, words_of(text))
    at = [w.text for w in linked.words].index(name)
    linked.mentions.append(Mention(at, at + 1, name, [Thing(kind, 0, "name")]))
    return [a.kind for a in Question(linked, tuple(linked.mentions)).asked]


@pytest.mark.parametrize(
    ("question", "needs"),
    [
        ("which services need gitea", False),
        ("what needs gitea", False),
        ("who relies upon gitea", False),
        ("what does gitea need", True),
        ("which things does our gitea rely upon", True),
        ("which services are needed by gitea", True),
        ("by which services is gitea needed", False),
    ],
)
def test_syntax_tells_who_needs_whom(question: str, needs: bool) -> None:
    kinds = asked(question, "gitea")
    assert ("dependencies" in kinds) == needs, kinds
    assert ("dependents" in kinds) != needs, kinds


@pytest.mark.parametrize(
    "question",
    ["which ports does gitea publish", "how many ports does gitea publish", "number of ports of gitea"],
)
def test_every_type_may_be_counted(question: str) -> None:
    assert asked(question, "gitea")[0] == "ports"


def test_a_proxy_is_asked_for_as_the_service_that_it_is_too() -> None:
    assert "ports" in asked("which port does traefik publish", "traefik", "proxy")
    assert "proxied" in asked("which services are behind traefik", "traefik", "proxy")
