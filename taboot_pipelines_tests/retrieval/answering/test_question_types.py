"""What type of question is asked: the fitted model, its data, and what it may explain."""

from __future__ import annotations

import numpy as np
import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.answering import question_types
from taboot_pipelines.retrieval.answering.config import Config
from taboot_pipelines.retrieval.answering.fact_answers import Facts
from taboot_pipelines.retrieval.answering.question_types import FACTS, Exemplar, exemplars, guess, model


def test_the_model_is_fitted_on_the_wordings_of_the_package() -> None:
    """Else run ``python benchmarks/question_types.py --write``."""
    assert model().fitted_on == question_types.digest()
    assert set(model().types) == {e.type for e in exemplars()} == set(question_types.vocabulary())


def test_each_wording_has_one_type_and_no_slot_left() -> None:
    seen: dict[str, str] = {}
    for exemplar in exemplars():
        assert "<" not in exemplar.text and exemplar.text.strip(), exemplar
        # What is counted is of a type of its own, and so is counting.
        known = seen.setdefault(exemplar.text, exemplar.type)
        assert exemplar.type in (known, "count"), (known, exemplar)


def test_a_type_names_kinds_of_fact_that_there_are() -> None:
    house: object = None
    known = set(Facts(house, Config(house))._handlers)  # type: ignore[arg-type]
    assert set(FACTS) <= set(model().types)
    assert {kind for kinds in FACTS.values() for kind in kinds} <= known


@pytest.mark.parametrize(
    ("masked", "of"),
    [
        ("suppose the service is gone, who suffers", "dependents_of"),
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
        assert guess("which services need the service, and who else")[0].type == "dependents_of"
    finally:
        question_types._guess.cache_clear()


def test_a_long_text_is_of_no_type() -> None:
    assert guess("which service needs it " * 20) == []
