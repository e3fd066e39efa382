"""Makes ``retrieval/token_vectors.npz``: a vector for each token of the bundled encoder's vocabulary.

    python benchmarks/token_vectors.py [--write]

The encoder reads the whole vocabulary in random order, eight tokens at a time, several times over; a token's
vector is the mean of what it makes of it there. No text is needed, and none has a part in it. The vectors are
reduced to their principal components and those to four bits. Prints how much of the vectors' variance is kept
and how near a token is to itself afterwards. With ``--write`` it writes the file, and prints its SHA-256,
which ``late_interaction.TABLE_SHA256`` names. The same versions of OpenVINO and numpy on the same processor
make the same file.
"""

from __future__ import annotations

import io
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np

from taboot_pipelines.embedding.minilm import MODEL_SHA256, MiniLmEmbedder
from taboot_pipelines.retrieval import late_interaction
from taboot_pipelines.retrieval.late_interaction import TokenVectors
from taboot_pipelines.settings import EmbeddingSettings

#: Tokens before this one are markers and places that the vocabulary keeps free.
FIRST = 999
BEGIN, END = 101, 102
AT_A_TIME, ROUNDS = 8, 4
COMPONENTS, LEVELS = 96, 7


def in_contexts() -> np.ndarray:
    """The mean vector of each token in random contexts, shape (tokens, dimension); 0 for markers."""
    loaded = MiniLmEmbedder(EmbeddingSettings())._loaded()
    size = loaded.tokenizer.get_vocab_size()
    total, count = np.zeros((size, loaded.encoder.dimension)), np.zeros((size, 1))
    random = np.random.default_rng(0)
    for _ in range(ROUNDS):
        order = random.permutation(np.arange(FIRST, size))
        for at in range(0, len(order), AT_A_TIME):
            tokens = order[at : at + AT_A_TIME]
            total[tokens] += loaded.encoder.hidden([BEGIN, *tokens.tolist(), END])[1:-1]
            count[tokens] += 1
    return total / np.maximum(count, 1)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def main() -> None:
    vectors = in_contexts()
    center = vectors[FIRST:].mean(axis=0).astype(np.float32)
    spread = unit(vectors[FIRST:] - center)
    # The axes of the covariance, the widest first.
    variances, axes = np.linalg.eigh(spread.T @ spread)
    components = axes[:, ::-1][:, :COMPONENTS].astype(np.float32)
    reduced = np.zeros((len(vectors), COMPONENTS))
    reduced[FIRST:] = unit((vectors[FIRST:] - center) @ components)
    scale = np.maximum(np.abs(reduced).max(axis=1, keepdims=True), 1e-9)
    levels = (np.round(reduced / scale * LEVELS) + LEVELS + 1).astype(np.uint8)
    made = TokenVectors(levels[:, ::2] | levels[:, 1::2] << 4, center, components)
    kept = np.einsum("ij,ij->i", made.of(np.arange(FIRST, len(vectors))), reduced[FIRST:])
    share = variances[::-1][:COMPONENTS].sum() / variances.sum()
    print(f"{share:.3f} of the variance, itself by {kept.mean():.4f}")
    if "--write" in sys.argv:
        data = io.BytesIO()
        np.savez_compressed(
            data,
            model=np.array(MODEL_SHA256),
            codes=made.codes,
            center=made.center,
            components=made.components.astype(np.float16),
        )
        path = Path(late_interaction.__file__).with_name("token_vectors.npz")
        path.write_bytes(data.getvalue())
        print(f"{path.name}: {len(data.getvalue()):,} bytes, SHA-256 {sha256(data.getvalue()).hexdigest()}")


if __name__ == "__main__":
    main()
