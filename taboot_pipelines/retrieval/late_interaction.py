"""Late interaction: the best hits of the fused ranking, ordered anew by their tokens one by one.

Each token of the query looks for its nearest among the tokens of a passage, and what they find is added up
(MaxSim; Khattab, Zaharia 2020, "ColBERT"), each by how rare its word is in the knowledge base. The vector of
a whole passage has no room for every word; this hears the one that it left out, also by another name.

Nothing is stored or computed of a passage: the bundled encoder reads the query's tokens in their context, and
a token of a passage has one vector wherever it stands, the mean of what the encoder makes of it in random
contexts. ``token_vectors.npz`` has those, 96 principal components of 4 bits for each token; they belong to
that encoder alone. ``benchmarks/token_vectors.py`` makes it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from taboot_pipelines.documents.tokens import TOKENIZER
from taboot_pipelines.embedding.minilm import MODEL_SHA256, ReadTokens
from taboot_pipelines.embedding.protocol import Vectors
from taboot_pipelines.errors import TabootError
from taboot_pipelines.packaged import packaged_file, read_verified
from taboot_pipelines.retrieval.fusion import DIGITS, Ids, Ranking, Scores, rank, reorder
from taboot_pipelines.retrieval.index import Index
from taboot_pipelines.retrieval.ranking import RankedRows
from taboot_pipelines.shards.analyzer import analyze

#: Hits that are ordered anew.
DEPTH = 60
#: What MaxSim counts beside the fused score, which counts 1, and the power of a similarity: one good match
#: tells more than two middling ones. Both were chosen on Cranfield and CISI, of weights that are within .001
#: of the best the least (benchmarks/retrieval_quality.py).
_WEIGHT = 0.4
_POWER = 2
#: Multiplications that BLAS does in one thread: for products as small as these more of them cost more than
#: they bring, and much more where the machine has other work.
_ALONE = 1 << 18
#: SHA-256 of ``token_vectors.npz``.
TABLE_SHA256 = "dae91508354f24f1ba2e0192c53317732e24367fdd15b6f5390db381133e26ff"


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """A vector for each token of the vocabulary.

    ``codes``: shape (tokens, components / 2), two components a byte, the first in its lower half, each from 1
    to 15 for −7 to 7; ``center``, ``components``: the mean of the vectors, and the axes that they were
    reduced to, shape (dimension, components).
    """

    codes: npt.NDArray[np.uint8]
    center: Scores
    components: Scores

    def of(self, ids: Ids) -> Scores:
        """The unit vectors of tokens, shape (len(ids), components); 0 for a token that has none."""
        codes = self.codes[ids]
        signed = np.stack([codes & 15, codes >> 4], axis=-1).reshape(len(ids), -1)
        return _unit(signed.astype(np.float64) - 8)

    def project(self, vectors: Vectors) -> Scores:
        """The unit vectors of what the encoder made of tokens, to compare with :meth:`of`."""
        return _unit(_product(vectors.astype(np.float64) - self.center, self.components))


def _product(rows: Scores, columns: Scores) -> Scores:
    """``rows @ columns``, a few rows at a time."""
    step = max(1, _ALONE // columns.size)
    return np.concatenate([rows[at : at + step] @ columns for at in range(0, len(rows), step)])


def _unit(rows: Scores) -> Scores:
    unit: Scores = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return unit


@cache
def token_vectors() -> TokenVectors:
    """The packaged vectors. Raises ``E_MODEL`` if the file was changed, or made by another encoder."""
    path = packaged_file("taboot_pipelines.retrieval", "token_vectors.npz")
    data, _ = read_verified(path, TABLE_SHA256)
    with np.load(io.BytesIO(data)) as held:
        if str(held["model"]) != MODEL_SHA256:
            raise TabootError("E_MODEL", f"{path.name} is not of the bundled model.", path=str(path))
        center, components = (held[name].astype(np.float64) for name in ("center", "components"))
        return TokenVectors(held["codes"], center, components)


class LateInteraction:
    """``words``: the tokens of a query, as the bundled encoder reads it; ``weights``: what each of them
    counts, shape (tokens,), with a sum above 0; ``written``: the word that each is part of.

    The attributes ``weights``, whose sum is 1, and ``written`` are of the tokens that count.
    """

    def __init__(self, words: Vectors, weights: Scores, written: Sequence[str] = ()) -> None:
        self._table = token_vectors()
        used = np.flatnonzero(weights)
        self._words = self._table.project(words[used])
        self.weights: Scores = weights[used] / weights.sum()
        self.written = [written[i] for i in used.tolist()] if written else []

    def matches(self, texts: Sequence[str]) -> Scores:
        """How well each text has each token that counts, from 0 to 1: shape (len(texts), tokens); 0 for one
        without tokens."""
        held = [TOKENIZER.ids_of(text) for text in texts]
        found = np.zeros((len(texts), len(self._words)))
        filled = [i for i, ids in enumerate(held) if ids]
        if not filled:
            return found
        # Each token is compared once, whichever texts have it.
        every, place = np.unique(np.concatenate([held[i] for i in filled]), return_inverse=True)
        near = np.maximum(_product(self._table.of(every), self._words.T), 0.0) ** _POWER
        starts = np.cumsum([0, *(len(held[i]) for i in filled[:-1])])
        found[filled] = np.maximum.reduceat(near[place], starts)
        return found

    def scores(self, texts: Sequence[str]) -> Scores:
        """MaxSim of each text, from 0 to 1; 0 for one without tokens."""
        return self.matches(texts) @ self.weights

    def order(self, index: Index, ranked: RankedRows) -> RankedRows:
        """``ranked``, its best :data:`DEPTH` by their scores and by MaxSim: the arm ``late``."""
        ids = ranked.ids[:DEPTH]
        late = self.scores([index.text(row) for row in ids.tolist()]).round(DIGITS)
        best = reorder(Ranking(ids, ranked.scores[:DEPTH]), late, _WEIGHT)
        ordered = ranked.reordered(
            np.concatenate((best.ids, ranked.ids[DEPTH:])),
            np.concatenate((best.scores, ranked.scores[DEPTH:])),
        )
        behind = len(ranked) - len(ids)
        own, places = dict(zip(ids.tolist(), late.tolist(), strict=True)), rank(ids, late, len(ids)).ids
        place = {row: n for n, row in enumerate(places.tolist())}
        at = best.ids.tolist()
        ordered.arms["late"] = np.array([*(own[row] for row in at), *[np.nan] * behind])
        ordered.places["late"] = np.array([*(place[row] for row in at), *[-1] * behind], dtype=np.int64)
        return ordered


def late_interaction(query: str, read: ReadTokens, idf: Callable[[str], float]) -> LateInteraction | None:
    """What orders the hits of ``query``, whose tokens are ``read``; None if it has only function words.
    ``idf``: how rare a term of the analyzer is."""
    rarity = {
        word: max((idf(term) for term in analyze(query[slice(*word)]).terms), default=0.0)
        for word in set(read.words)
    }
    weights = np.array([rarity[word] for word in read.words])
    written = [query[slice(*word)] for word in read.words]
    return LateInteraction(read.vectors, weights, written) if weights.any() else None
