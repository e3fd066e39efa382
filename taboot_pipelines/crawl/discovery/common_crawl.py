"""What an index of crawled pages knows of a site: the CDX server API (pywb) as Common Crawl serves it.

``{endpoint}/collinfo.json`` names the crawls, the latest first, each with the URL of its own index. That
index is asked for how many pages of answers it has (``showNumPages``), then for each page; a line is a JSON
object with ``url``. It answers 404 where it knows nothing of the site.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar
from urllib.parse import urlencode

import orjson

from taboot_pipelines.crawl.urls import WebUrl, parse_url
from taboot_pipelines.errors import TabootError

T = TypeVar("T")

#: Crawls asked, from the latest: one that has nothing of the site leads to the one before it.
MAX_CRAWLS = 3
#: Pages of answers of one crawl. A page of one block of the index holds some three thousand lines.
MAX_ANSWER_PAGES = 100
MAX_ANSWER_BYTES = 50 * 1024 * 1024


class Listing(Protocol):
    """An answer: its body, and the URL that gave it."""

    @property
    def url(self) -> str: ...

    @property
    def body(self) -> bytes: ...


#: ``get(url, max_bytes)``: the answer to a GET after redirects. Raises ``TabootError``; ``E_NOT_FOUND`` for
#: 404 and 410.
Get = Callable[[WebUrl, int], Listing]


def crawled_urls(endpoint: str, domain: str, get: Get, limit: int) -> Iterator[str]:
    """At most ``limit`` URLs of pages beneath ``domain`` that answered 200, of the latest crawl that knows
    any. Raises ``TabootError`` where the index cannot be read."""
    base = parse_url(endpoint if endpoint.endswith("/") else f"{endpoint}/")
    crawls = _json(get(parse_url("collinfo.json", base.text), MAX_ANSWER_BYTES), list, "list of crawls")
    given = 0
    for crawl in crawls[:MAX_CRAWLS]:
        index = _index(crawl, base)
        if index is None:
            continue
        for url in _of_crawl(index, domain, get):
            yield url
            given += 1
            if given >= limit:
                return
        if given:
            return


def _index(crawl: object, base: WebUrl) -> str | None:
    """The index of one crawl: where the list says if that is on the same server, else by its name there. What
    a list says must not lead elsewhere, since the server is trusted as it was configured."""
    if not isinstance(crawl, dict):
        return None
    said, name = crawl.get("cdx-api"), crawl.get("id")
    if isinstance(said, str):
        try:
            url = parse_url(said, base.text)
        except TabootError:
            return None
        if url.origin == base.origin:
            return url.text
    if isinstance(name, str) and name.replace("-", "").isalnum():
        return f"{base.text}{name}-index"
    return None


def _of_crawl(index: str, domain: str, get: Get) -> Iterator[str]:
    query = {"url": domain, "matchType": "domain", "pageSize": 1}
    try:
        said = _json(
            get(_asked(index, query | {"showNumPages": "true"}), MAX_ANSWER_BYTES), dict, "page count"
        )
    except TabootError as error:
        if error.code == "E_NOT_FOUND":
            return
        raise
    pages = said.get("pages")
    if not isinstance(pages, int):
        raise TabootError("E_PARSE", "The crawl index gave no number of pages.", url=index)
    wanted = {"output": "json", "fl": "url", "filter": "=status:200", "collapse": "urlkey"}
    for page in range(min(pages, MAX_ANSWER_PAGES)):
        try:
            answer = get(_asked(index, query | wanted | {"page": page}), MAX_ANSWER_BYTES)
        except TabootError as error:
            if error.code == "E_NOT_FOUND":
                continue  # the filter leaves nothing of this page
            raise
        for line in answer.body.splitlines():
            try:
                found = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if isinstance(found, dict) and isinstance(found.get("url"), str):
                yield found["url"]


def _asked(index: str, query: dict[str, object]) -> WebUrl:
    return parse_url(f"{index}{'&' if '?' in index else '?'}{urlencode(query)}")


def _json(answer: Listing, kind: type[T], what: str) -> T:
    try:
        said = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        said = None
    if not isinstance(said, kind):
        raise TabootError("E_PARSE", f"The crawl index gave no {what}.", url=answer.url)
    return said
