"""What one search asks for: the arguments of ``KnowledgeBase.search``, checked, with their defaults.

A wrong argument is ``E_QUERY`` with its name. What has passed here is not checked again.
"""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from taboot_pipelines.errors import TabootError, or_near
from taboot_pipelines.model import ids
from taboot_pipelines.retrieval.bm25 import names_something
from taboot_pipelines.retrieval.filters import Filter, FilterOptions, read_filter
from taboot_pipelines.retrieval.fusion import Fusion
from taboot_pipelines.settings import RetrievalSettings

Mode = Literal["hybrid", "vector", "keyword", "graph", "adaptive"]
#: Modes that ask all arms and join them.
JOINING = frozenset({"hybrid", "graph", "adaptive"})
Arm = Literal["vector", "keyword"]

#: Sentences that an answer may be asked for.
MAX_SENTENCES = 50
#: Passages whose statements an answer looks at: the best of each arm, in equal parts.
PASSAGES = 40

_MAX_HITS = 10_000
#: What of a query is searched. It has at most 500 words, about as much as an embedder reads.
_MAX_QUERY_CHARACTERS = 1_000
#: A longer text is not a query that somebody meant to ask.
_MAX_GIVEN_CHARACTERS = 100_000
_MAX_RRF_K = 1_000_000
_MAX_EXPAND = 10
_MAX_RERANKED = 1_000
_MAX_CURSOR_CHARACTERS = 2_000


class SearchOptions(FilterOptions, total=False):
    """What a search may be told besides its query and limit; ``KnowledgeBase.search`` says what each does."""

    mode: Mode
    vector_weight: float | None
    keyword_weight: float | None
    weights: Mapping[str, float] | None
    fusion: Fusion
    rrf_k: int | None
    min_score: float | None
    expand: int
    dedupe: bool
    cursor: str | None
    rerank: bool | None
    rerank_top_n: int | None
    exact: bool
    cache: bool


#: The options that limit the documents.
FILTERS = (
    "source",
    "type",
    "tag",
    "language",
    "domain",
    "collection",
    "content_type",
    "path_prefix",
    "date_from",
    "date_to",
)


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search whose arguments are sound.

    ``query``: not empty, normalized, cut to what is searched; ``uncut``: how many characters it had before,
    0 if it has them still; ``limit``: how many hits at most; the weights are those of the arms in
    the fusion; ``cursor``: where a page before this one ended, not yet read; ``depth``: how many of each
    arm's best take part in a fusion at least, which is the same for all pages of one list. The others are as
    in ``KnowledgeBase.search``.
    """

    query: str
    limit: int
    mode: Mode
    filter: Filter
    vector_weight: float
    keyword_weight: float
    rerank: bool | None
    exact: bool
    fusion: Fusion = "auto"
    rrf_k: int = 60
    min_score: float | None = None
    expand: int = 0
    dedupe: bool = False
    cursor: str | None = None
    rerank_top_n: int | None = None
    cache: bool = True
    depth: int = 0
    uncut: int = 0

    @property
    def joins(self) -> bool:
        """Whether all arms are asked, and their lists are joined."""
        return self.mode in JOINING

    @property
    def fingerprint(self) -> str:
        """What tells the list of hits that this request asks for from that of any other: 32 hex digits. The
        pages of one list have one.
        """
        of_list = dataclasses.replace(self, limit=0, cursor=None, cache=True, depth=0, expand=0)
        return ids.digest(_plain(of_list))[:32]


def read_request(query: str, limit: int, *, defaults: RetrievalSettings, **options: object) -> SearchRequest:
    """The request that the arguments of a search mean, ``options`` being :class:`SearchOptions`; weights that
    are None come from ``defaults``. Raises ``E_QUERY`` naming the first argument that is wrong.
    """
    for name in options:
        if name not in SearchOptions.__annotations__:
            raise TabootError(
                "E_QUERY",
                f"search knows no argument {name[:80]!r}." + or_near(name, SearchOptions.__annotations__),
            )
    given: Any = options
    text, uncut = _check_query(query)
    check_limit(limit, _MAX_HITS)
    mode = _choice("mode", given.get("mode", "hybrid"), get_args(Mode))
    by_vector, by_keyword = _weights(given, text, defaults)
    wanted = read_filter(**{name: given.get(name) for name in FILTERS})
    if given.get("rerank") not in (True, False, None):
        raise TabootError("E_QUERY", "rerank must be True, False or None.")
    rrf_k, top_n = given.get("rrf_k"), given.get("rerank_top_n")
    return SearchRequest(
        query=text,
        uncut=uncut,
        limit=limit,
        mode=mode,
        filter=wanted,
        vector_weight=by_vector,
        keyword_weight=by_keyword,
        rerank=given.get("rerank"),
        exact=_flag("exact", given.get("exact", False)),
        fusion=_choice("fusion", given.get("fusion", "auto"), get_args(Fusion)),
        rrf_k=defaults.rrf_k if rrf_k is None else _whole("rrf_k", rrf_k, 1, _MAX_RRF_K),
        min_score=_min_score(given.get("min_score")),
        expand=_whole("expand", given.get("expand", 0), 0, _MAX_EXPAND),
        dedupe=_flag("dedupe", given.get("dedupe", False)),
        cursor=_cursor(given.get("cursor")),
        rerank_top_n=None if top_n is None else _whole("rerank_top_n", top_n, 1, _MAX_RERANKED),
        cache=_flag("cache", given.get("cache", True)),
    )


def check_limit(limit: int, most: int) -> None:
    """Raise ``E_QUERY`` unless ``limit`` is a whole number from 1 to ``most``."""
    _whole("limit", limit, 1, most)


def check_texts(*, required: bool = False, several: bool = False, **given: Any) -> None:
    """Raise ``E_QUERY`` naming the first argument that is not a text (``several``: nor a collection of texts;
    nor None, unless it is ``required``), or that holds a lone surrogate, which has no place in any store.
    """
    for name, value in given.items():
        texts = () if value is None and not required else (value,) if isinstance(value, str) else value
        listed = isinstance(texts, Collection) and not isinstance(texts, (bytes, Mapping))
        fits = several or isinstance(value, str) or value is None
        if not fits or not listed or not all(isinstance(text, str) for text in texts):
            raise TabootError("E_QUERY", f"{name} must be a text{' or a list of texts' if several else ''}.")
        if any("\ud800" <= c <= "\udfff" for text in texts for c in text):
            raise TabootError("E_QUERY", f"{name} holds a character that is no part of any text.")


def checked_texts(**given: Any) -> tuple[str, ...]:
    """Return the texts of one argument: a text alone is one of them. Raises as :func:`check_texts`."""
    check_texts(required=True, several=True, **given)
    (value,) = given.values()
    return (value,) if isinstance(value, str) else tuple(value)


def normalize(query: str) -> str:
    """A query as it is searched and cached: NFC, without control characters, each run of blanks one blank,
    none at the ends. Lone surrogates, which have no place in any store, become question marks, and so does a
    query of control characters alone.
    """
    text = unicodedata.normalize("NFC", query.encode("utf-8", "replace").decode("utf-8"))
    return " ".join("".join(" " if unicodedata.category(c) == "Cc" else c for c in text).split()) or "?"


def _check_query(query: object) -> tuple[str, int]:
    """The query as it is searched, and how many characters it has without what was cut off; 0 if nothing was.

    It is cut between two words where there is a blank in the last fifth.
    """
    if not isinstance(query, str) or not query.strip():
        raise TabootError("E_QUERY", "query must be a text that is not empty.")
    if len(query) > _MAX_GIVEN_CHARACTERS:
        raise TabootError(
            "E_QUERY",
            f"query must have at most {_MAX_GIVEN_CHARACTERS} characters; it has {len(query)}.",
            remedy="Ask in fewer words: a question rather than a document.",
        )
    text = normalize(query)
    if len(text) <= _MAX_QUERY_CHARACTERS:
        return text, 0
    end = text.rfind(" ", _MAX_QUERY_CHARACTERS * 4 // 5, _MAX_QUERY_CHARACTERS + 1)
    return text[: end if end > 0 else _MAX_QUERY_CHARACTERS], len(text)


def _weights(given: Mapping[str, Any], text: str, defaults: RetrievalSettings) -> tuple[float, float]:
    """The weights of the vector and the keyword arm."""
    own = {arm: given.get(f"{arm}_weight") for arm in get_args(Arm)}
    weights = given.get("weights")
    if weights is not None:
        if not isinstance(weights, Mapping):
            raise TabootError("E_QUERY", "weights must be a mapping of arms to numbers.")
        for arm, weight in weights.items():
            if arm not in own:
                raise TabootError(
                    "E_QUERY",
                    f"weights must name arms of {', '.join(own)}, not {str(arm)[:80]!r}."
                    + or_near(str(arm), own),
                )
            if own[arm] is not None:
                raise TabootError("E_QUERY", f"weights must not give the {arm} arm a second weight.")
            own[arm] = weight
    by_vector = _check_weight("vector_weight", own["vector"], defaults.vector_weight)
    by_keyword = _check_weight("keyword_weight", own["keyword"], defaults.keyword_weight)
    if own["vector"] is None and own["keyword"] is None and by_keyword > 0 and names_something(text):
        by_keyword = max(by_vector, by_keyword)
    return by_vector, by_keyword


def _check_weight(name: str, value: float | None, default: float) -> float:
    if value is None:
        return default
    if not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise TabootError("E_QUERY", f"{name} must be a number from 0.")
    return float(value)


def _min_score(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < float("inf"):
        raise TabootError("E_QUERY", "min_score must be a number.")
    return float(value)


def _cursor(value: object) -> str | None:
    if value is not None and (not isinstance(value, str) or not 0 < len(value) <= _MAX_CURSOR_CHARACTERS):
        raise TabootError("E_QUERY", "cursor must be the next_cursor of a result.")
    return value


def _choice(name: str, value: Any, known: Collection[str]) -> Any:
    if not isinstance(value, str) or value not in known:
        hint = or_near(value, known) if isinstance(value, str) else ""
        raise TabootError("E_QUERY", f"{name} must be one of {', '.join(known)}.{hint}")
    return value


def _flag(name: str, value: Any) -> bool:
    if value not in (True, False):
        raise TabootError("E_QUERY", f"{name} must be True or False.")
    return bool(value)


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise TabootError("E_QUERY", f"{name} must be a whole number from {least} to {most}.")
    return value


def _plain(value: Any) -> Any:
    """The same as JSON can hold it, equal for equal values."""
    if isinstance(value, SearchRequest | Filter):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, frozenset):
        return sorted(value)
    return value.isoformat() if isinstance(value, datetime) else value
