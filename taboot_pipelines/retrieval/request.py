"""What one search asks for: the arguments of ``KnowledgeBase.search``, checked, with their defaults.

A wrong argument is ``E_QUERY`` with its name. What has passed here is not checked again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.bm25 import names_something
from taboot_pipelines.retrieval.filters import Filter, Moment, Words, read_filter
from taboot_pipelines.settings import RetrievalSettings

Mode = Literal["hybrid", "vector", "keyword"]

_MAX_HITS = 10_000
_MAX_QUERY_CHARACTERS = 100_000


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search whose arguments are sound.

    ``query``: not empty, without lone surrogates; ``limit``: how many hits at most; the weights are those of
    the arms in the fusion; ``rerank`` and ``exact``: as in ``KnowledgeBase.search``.
    """

    query: str
    limit: int
    mode: Mode
    filter: Filter
    vector_weight: float
    keyword_weight: float
    rerank: bool | None
    exact: bool


def read_request(
    query: str,
    limit: int,
    *,
    source: Words = None,
    type: Words = None,
    tag: Words = None,
    language: Words = None,
    date_from: Moment = None,
    date_to: Moment = None,
    mode: Mode = "hybrid",
    vector_weight: float | None = None,
    keyword_weight: float | None = None,
    rerank: bool | None = None,
    exact: bool = False,
    defaults: RetrievalSettings,
) -> SearchRequest:
    """The request that the arguments of a search mean; weights that are None come from ``defaults``. Raises
    ``E_QUERY`` naming the first argument that is wrong.
    """
    text = _check_query(query)
    check_limit(limit, _MAX_HITS)
    if mode not in get_args(Mode):
        raise TabootError("E_QUERY", f"mode must be one of {', '.join(get_args(Mode))}.")
    by_vector = _check_weight("vector_weight", vector_weight, defaults.vector_weight)
    by_keyword = _check_weight("keyword_weight", keyword_weight, defaults.keyword_weight)
    if vector_weight is None and keyword_weight is None and by_keyword > 0 and names_something(text):
        by_keyword = max(by_vector, by_keyword)
    wanted = read_filter(
        source=source, type=type, tag=tag, language=language, date_from=date_from, date_to=date_to
    )
    if rerank not in (True, False, None):
        raise TabootError("E_QUERY", "rerank must be True, False or None.")
    if exact not in (True, False):
        raise TabootError("E_QUERY", "exact must be True or False.")
    return SearchRequest(
        query=text,
        limit=limit,
        mode=mode,
        filter=wanted,
        vector_weight=by_vector,
        keyword_weight=by_keyword,
        rerank=rerank,
        exact=exact,
    )


def check_limit(limit: int, most: int) -> None:
    """Raise ``E_QUERY`` unless ``limit`` is a whole number from 1 to ``most``."""
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= most:
        raise TabootError("E_QUERY", f"limit must be a whole number from 1 to {most}.")


def _check_query(query: str) -> str:
    if not isinstance(query, str) or not query.strip():
        raise TabootError("E_QUERY", "query must be a text that is not empty.")
    if len(query) > _MAX_QUERY_CHARACTERS:
        raise TabootError("E_QUERY", f"query must have at most {_MAX_QUERY_CHARACTERS} characters.")
    return query.encode("utf-8", "replace").decode("utf-8")  # lone surrogates have no place in any store


def _check_weight(name: str, value: float | None, default: float) -> float:
    if value is None:
        return default
    if not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise TabootError("E_QUERY", f"{name} must be a number from 0.")
    return float(value)
