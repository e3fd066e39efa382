"""What type of question is asked: a linear model over the question with its names masked.

A name says nothing of the type, so each is replaced by a word of its kind ("which services need the
service"). The model is the mean of two logistic regressions, one over the bundled encoder's vector of the
masked question and one over its words and parts of words, fitted by ``benchmarks/question_types.py`` on the
wordings of ``question_types.txt``. It is the same for every knowledge base, whatever embeds its texts.

A type is a guess that has to prove itself: its facts are said only if they leave hardly a word of the
question unexplained, and what a type explains are the words of its exemplars. Counting is no type: whatever
is listed may be counted, so "how many" is read as "which".
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from taboot_pipelines.embedding.minilm import MiniLmEmbedder
from taboot_pipelines.errors import TabootError
from taboot_pipelines.packaged import sections
from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.settings import EmbeddingSettings

_PACKAGE = "taboot_pipelines.retrieval.answering"
#: The kinds of fact (``fact_answers.Facts``) that may answer a type of question, the more special first. A
#: type that is not here asks for a value of configuration or for text.
FACTS: dict[str, tuple[str, ...]] = {
    "port_of": ("ports",),
    "service_on_port": ("port_owner",),
    "services_publishing": ("port_owner", "publishers"),
    "port_conflicts": ("port_owner",),
    "image_of": ("images",),
    "version_of": ("versions",),
    "services_using_image": ("image_users",),
    "container_name_of": ("container_name",),
    "dependencies_of": ("dependencies", "connections"),
    "connections_of": ("connections", "dependencies"),
    "dependents_of": ("dependents", "impact"),
    "impact_of": ("impact", "dependents"),
    "hostname_of": ("hostnames",),
    "route_to": ("routes",),
    "behind_host": ("behind",),
    "exposed_services": ("exposed", "proxied"),
    "services_behind_proxy": ("proxied", "exposed"),
    "hostnames_of_proxy": ("proxied",),
    "networks_of": ("networks",),
    "members_of_network": ("network_members", "network_peers"),
    "network_peers_of": ("network_peers",),
    "namespace_sharers": ("sharers", "vpn_users"),
    "services_in_networks": ("network_members",),
    "shared_networks": ("shared_networks",),
    "shared_services": ("shared_services",),
    "services_on_host": ("members", "inventory"),
    "host_of": ("location",),
    "services_of_project": ("members",),
    "project_of": ("project_of",),
    "list_things": ("inventory",),
    "consumers_of_store": ("users", "dependents"),
    "store_of": ("connections", "dependencies"),
    "auth_of": ("auth", "admitted"),
    "admitted_to": ("admitted", "auth"),
    "tls_of": ("routes",),
    "address_of": ("ip",),
    "owner_of_address": ("ip", "on_address"),
    "vpn": ("vpn", "vpn_users"),
    "schedule_of": ("schedule_of",),
    "definition": ("description",),
    "yesno_dependency": ("dependencies", "users", "dependents", "connections"),
    "yesno_exposure": ("exposed", "ports"),
    "yesno_membership": ("networks", "network_members", "members", "location"),
    "compare": ("shared_services",),
}
#: Types that ask what the named thing needs, and those that ask what needs it: only syntax tells these apart.
OF_SUBJECT = frozenset({"dependencies_of", "connections_of", "store_of"})
OF_OBJECT = frozenset({"dependents_of", "consumers_of_store"})
#: The kinds that say which store a service uses, or what uses one.
OF_STORES = frozenset({"connections", "dependencies", "dependents", "impact", "shared_services", "users"})
#: Types to which that an edge is missing is no answer: what is stored somewhere may be declared otherwise.
OPEN = frozenset({"store_of"})
#: Types that are tried, and how probable each must be.
_TRIED, _LEAST = 3, 0.1
#: What is so probable may be denied too, and asked without a word that carries meaning.
PROBABLE = 0.5
#: What stands for a name of each kind in a masked question.
MASKS = {
    "service": "service",
    "guard": "service",
    "route": "domain",
    "network": "network",
    "host": "host",
    "image": "image",
    "project": "project",
    "proxy": "proxy",
    "address": "address",
    "file": "file",
    "folder": "project",
}
#: What stands for the slots of the exemplars.
_SLOTS = {"svc": "service", "net": "network", "img": "image", "var": "variable"}
_SLOT = re.compile(r"<([A-Z]+)2?>")
#: Buckets of words and parts of words.
_BUCKETS = 4096
#: A word of fewer exemplars of a type says nothing of it, unless the type is nearly certain.
_SEVERAL, CERTAIN = 2, 0.7
#: Digits of a port at most.
_MAX_DIGITS = 5
#: A longer question asks for more than a fact.
_MAX_WORDS = 40


class Exemplar(NamedTuple):
    """A masked wording of a type."""

    type: str
    text: str


class Guess(NamedTuple):
    """A type with its probability."""

    type: str
    probability: float


def exemplars() -> Iterator[Exemplar]:
    """The exemplars of all types, their names masked."""
    for of, wording in _wordings():
        yield Exemplar(of, _SLOT.sub(lambda m: _SLOTS.get(m[1].lower(), m[1].lower()), wording))


def wordings(of: str) -> Iterator[str]:
    """The wordings of a type, with their slots."""
    return (wording for held, wording in _wordings() if held == of)


def digest() -> str:
    """The SHA-256 of all types and wordings, in their order, in hex."""
    return hashlib.sha256("\n".join(f"{of} {wording}" for of, wording in _wordings()).encode()).hexdigest()


def _wordings() -> Iterator[tuple[str, str]]:
    for of, held in sections(_PACKAGE, "question_types.txt").items():
        yield from ((of, wording) for wording in held)


@cache
def vocabulary(certain: bool = False) -> dict[str, frozenset[str]]:
    """The stems of the words of each type's exemplars, of those in several, for a type that is ``certain`` in
    any."""
    held: dict[str, Counter[str]] = {}
    for of, wordings in sections(_PACKAGE, "question_types.txt").items():
        # No phrase goes over the end of a line, so all wordings of a type are folded at once.
        folded = words.fold(_SLOT.sub(" ", "\n".join(wordings))).split("\n")
        held[of] = Counter(stem for line in folded for stem in set(map(words.stem, words.runs(line))))
    least = 1 if certain else _SEVERAL
    return {of: frozenset(s for s, n in stems.items() if n >= least) for of, stems in held.items()}


def features(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """Words, pairs of words and parts of words of each text, hashed into buckets: unit rows of shape
    (texts, buckets)."""
    found = np.zeros((len(texts), _BUCKETS), dtype=np.float32)
    for row, text in zip(found, texts, strict=True):
        runs = re.findall(r"\w+", text.lower())
        spread = f" {' '.join(runs)} "
        parts = {*runs, *map(" ".join, pairwise(runs))}
        parts |= {spread[at : at + n] for n in (3, 4, 5) for at in range(len(spread) - n + 1)}
        for part in parts:
            row[zlib.crc32(part.encode("utf-8", "replace")) % _BUCKETS] += 1
        row /= max(float(np.linalg.norm(row)), 1e-9)
    return found


def softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True), dtype=np.float32)


@dataclass(frozen=True)
class Model:
    """``by_vector``, ``by_words``: weights, the constants as last row; shape (inputs + 1, types).
    ``fitted_on``: the :func:`digest` of the wordings."""

    types: tuple[str, ...]
    fitted_on: str
    by_vector: npt.NDArray[np.float32]
    by_words: npt.NDArray[np.float32]

    def probabilities(
        self, vectors: npt.NDArray[np.float32] | None, texts: Sequence[str]
    ) -> npt.NDArray[np.float32]:
        """Of each type for each masked text; by its words alone without ``vectors``. Shape (texts, types)."""
        told = softmax(features(texts) @ self.by_words[:-1] + self.by_words[-1])
        if vectors is None:
            return told
        by_vector = softmax(vectors @ self.by_vector[:-1] + self.by_vector[-1])
        return np.mean([told, by_vector], axis=0, dtype=np.float32)  # type: ignore[no-any-return]


@cache
def model() -> Model:
    """The fitted model of this package."""
    data = files(_PACKAGE).joinpath("question_types.npz").read_bytes()
    with np.load(io.BytesIO(data)) as held:
        return Model(
            tuple(str(held["types"]).split()),
            str(held["fitted_on"]),
            held["by_vector"].astype(np.float32),
            held["by_words"].astype(np.float32),
        )


@cache
def _encoder() -> MiniLmEmbedder:
    return MiniLmEmbedder(EmbeddingSettings())


def mask_of_literal(word: str) -> str:
    """What stands for a path or a number (the slots ``<PATH>`` and ``<PORT>``); empty for another word."""
    if word.startswith("/"):
        return "path"
    return "port" if word.isdigit() and len(word) <= _MAX_DIGITS else ""


def guess(masked: str) -> list[Guess]:
    """The types that a masked question is probably of, best first; by its words alone where the bundled
    encoder cannot be loaded, or the question is longer than it reads."""
    if len(masked.split()) > _MAX_WORDS:
        return []
    return list(_guess(masked))


@lru_cache(maxsize=1024)
def _guess(masked: str) -> tuple[Guess, ...]:
    vectors = None
    with contextlib.suppress(TabootError):
        vectors = _encoder().embed([masked])
    known = model()
    told = known.probabilities(vectors, [masked])[0]
    best = np.argsort(-told, kind="stable")[:_TRIED]
    return tuple(Guess(known.types[i], float(told[i])) for i in best if told[i] >= _LEAST)
