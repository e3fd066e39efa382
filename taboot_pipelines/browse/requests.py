"""What a URL asks for, checked: a wrong parameter is ``E_QUERY`` with its name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.request import FILTERS

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams
    from starlette.requests import Request

    from taboot_pipelines.browse.digest import Digests
    from taboot_pipelines.retrieval import KnowledgeBase

_SPAN = re.compile(r"([0-9]{1,12})-([0-9]{1,12})")
#: Places of one document that are marked at once.
_MAX_SPANS = 100
_SINGLE = ("date_from", "date_to", "mode")


def kb_of(request: Request) -> KnowledgeBase:
    kb: KnowledgeBase = request.app.state.kb
    return kb


def digests_of(request: Request) -> Digests:
    digests: Digests = request.app.state.digests
    return digests


def search_options(given: QueryParams) -> dict[str, Any]:
    """The filters and the mode of a search, as ``KnowledgeBase.search`` takes them."""
    options: dict[str, Any] = {}
    for name in (*FILTERS, "mode"):
        values = [v for v in given.getlist(name) if v]
        if values:
            options[name] = values[-1] if name in _SINGLE else values
    return options


def spans(given: QueryParams, name: str) -> tuple[tuple[int, int], ...]:
    """The places (``start-end``) that a document is to be marked at."""
    values = given.getlist(name)
    if len(values) > _MAX_SPANS:
        raise TabootError("E_QUERY", f"{name} must be given at most {_MAX_SPANS} times.")
    found = []
    for value in values:
        match = _SPAN.fullmatch(value)
        if match is None or int(match[1]) > int(match[2]):
            raise TabootError("E_QUERY", f"{name} must be a place such as 120-160, not {value[:40]!r}.")
        found.append((int(match[1]), int(match[2])))
    return tuple(found)


def whole(given: QueryParams, name: str, default: int | None = None) -> int | None:
    """A whole number from 1."""
    value = given.get(name)
    if not value:
        return default
    if not re.fullmatch(r"[0-9]{1,9}", value) or int(value) < 1:
        raise TabootError("E_QUERY", f"{name} must be a whole number from 1, not {value[:40]!r}.")
    return int(value)
