"""The cross-encoder in this process: real forward passes of a tiny random model."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.inference.rerank.torch import TorchReranker
from taboot_pipelines.settings import TorchSettings
from taboot_pipelines_tests.inference import tiny

pytestmark = pytest.mark.skipif(
    not (importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")),
    reason="the extra torch is not installed (several GB)",
)
QUERY = "restart nginx"
TEXTS = ["nginx is a proxy", "b", "a", "restart the container " * 40, "backup of postgres"]


def reranker(folder, **settings) -> TorchReranker:
    return TorchReranker(TorchSettings(model=str(folder), device="cpu", **settings))


def test_scores_are_those_of_transformers_in_the_callers_order(tmp_path):
    import torch
    from transformers import BertForSequenceClassification, PreTrainedTokenizerFast

    folder = tiny.cross_encoder(tmp_path / "tiny")
    scores = reranker(folder, batch_size=2).rank(QUERY, TEXTS)
    assert scores.dtype == np.float64 and ((scores > 0) & (scores < 1)).all()
    model = BertForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"),
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    for score, text in zip(scores, TEXTS, strict=True):
        given = tokenizer(QUERY, text, truncation="longest_first", max_length=64, return_tensors="pt")
        with torch.inference_mode():
            assert score == pytest.approx(torch.sigmoid(model(**given).logits)[0, 0].item(), abs=1e-5)
    assert reranker(folder).rank(QUERY, []).shape == (0,)
    with pytest.raises(TabootError, match="E_ENCODING"):
        reranker(folder).rank(QUERY, ["\ud800"])


def test_a_classifier_of_several_labels_is_no_reranker(tmp_path):
    folder = tiny.cross_encoder(tmp_path / "tiny", labels=3)
    with pytest.raises(TabootError, match="3 labels"):
        reranker(folder).rank(QUERY, TEXTS)
    assert "E_MODEL" in reranker(folder).health().message


def test_health_tells_versions_and_close_lets_go(tmp_path):
    model = reranker(tiny.cross_encoder(tmp_path / "tiny"))
    health = model.health()
    assert health.ok and health.part == "reranker" and "tiny" in health.version
    model.close()
    assert model.rank(QUERY, TEXTS).shape == (5,)
