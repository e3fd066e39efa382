"""Rounds: runs that a bound ended, each of which goes on where the one before it stopped.

As a rule a run asks for everything anew, which costs conditional requests alone. Where these alone would use
up what a run may ask for, it would never come further: then it takes what the runs before it have asked for
since the last run that came to its end, and asks for the rest. The run that ends such a round is complete, as
of the times at which each part was read.

What GitHub lists, asked for by conditional requests alone as long as it does not change.

Of every page the state keeps the ETag, the next page, and of each thing on it the id and a version: a page
that answers 304 is as good as its body. So a listing is whole in every run, and what it no longer has is
deleted; no clock and no ``since`` is trusted. Bodies of pages that were answered lie in a temporary file
until the run has used them. The pages of a list that a run did not come to the end of are kept too.
"""

from __future__ import annotations

import json
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from taboot_pipelines.connectors.access import SourceState
from taboot_pipelines.connectors.api.client import ApiClient
from taboot_pipelines.connectors.api.resources import version_of
from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.answers import Answer

#: After these the service is not asked any more in this run.
FINAL = frozenset({"E_REQUESTS", "E_CIRCUIT_OPEN", "E_429_RATE", "E_CREDENTIALS"})
#: Of these, what says nothing of the service's answers: what was answered before is still worth having.
BOUNDS = FINAL - {"E_CREDENTIALS"}
_KEY = "round"


class Round:
    """What this round has come to, by keys of the source's state and paths of items. ``most``: requests of
    one run."""

    def __init__(self, state: SourceState, most: int) -> None:
        self._state = state
        kept = state.load(_KEY) or {"spent": 0, "done": [], "failed": {}, "keys": [], "most": None}
        #: How many requests a run gets answered, where the service allows fewer than the entry.
        self._most: int | None = kept["most"]
        #: Whether what the runs before asked for is not asked for again.
        self.resumed = 2 * kept["spent"] > (most if self._most is None else min(most, self._most))
        self._spent = kept["spent"] if self.resumed else 0
        self._before = frozenset(kept["done"]) if self.resumed else frozenset()
        self._failed: dict[str, list[str]] = kept["failed"] if self.resumed else {}
        self._done: set[str] = set()
        #: Of the state what is kept until the round ends: by the runs before this one, and by this round.
        self._old = frozenset(kept["keys"])
        self._keys = set(self._old) if self.resumed else set()
        #: Requests of this run that one which begins anew makes again.
        self.answered = 0

    def is_done(self, key: str) -> bool:
        """Whether a run before this one has read what ``key`` names."""
        return key in self._before

    def done(self, key: str) -> None:
        """Say that what ``key`` names is read, and is in the state."""
        self._done.add(key)

    def failure(self, key: str) -> TabootError | None:
        """Why a run before this one could not read what ``key`` names."""
        failed = self._failed.get(key)
        return None if failed is None else TabootError(*failed)

    def fail(self, key: str, error: TabootError) -> None:
        """Say that what ``key`` names cannot be read, so that it is not tried again in this round."""
        self.answered += 1
        self._failed = {**self._failed, key: [error.code, error.message]}

    def keep(self, key: str, value: Any) -> None:
        """Save ``value`` in the state until the round ends; None forgets it."""
        (self._keys.discard if value is None else self._keys.add)(key)
        if value is not None or self._state.load(key) is not None:
            self._state.save(key, value)

    def kept(self, key: str) -> Any:
        """What a run of this round has kept under ``key``; None where none has."""
        return self._state.load(key) if self.resumed and key in self._keys else None

    def end(self, bound: TabootError | None, requests: int) -> None:
        """Keep the round for the next run if a bound has ended this one, else forget it. ``requests``: those
        of the run."""
        most = self._most
        if bound is not None and bound.code == "E_429_RATE":
            most = max(most or 1, requests)
        kept = {
            "spent": self._spent + self.answered,
            "done": sorted(self._before | self._done),
            "failed": self._failed,
            "keys": sorted(self._keys),
            "most": most,
        }
        for key in (self._old | self._keys) - (set() if bound is None else self._keys):
            self._state.save(key, None)
        if bound is not None or self._state.load(_KEY) is not None:
            self._state.save(_KEY, None if bound is None else kept)


PER_PAGE = 100
_MAX_PAGES = 100_000
#: The bodies of pages that are kept in memory; more go to a file.
_MEMORY_BYTES = 16 * 1024 * 1024
#: A version has so many hexadecimal digits.
_DIGITS = 32
#: What reading a resource raises that is not as GitHub documents it.
MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError)


class Held(NamedTuple):
    """One thing on a page. ``of``: the number of the thread that it belongs to; ``changed``: when, as GitHub
    writes it; ``facts``: what else must be known of it without its body."""

    id: str
    of: int
    version: str
    changed: str
    facts: dict[str, Any]


#: What is kept of a resource; None for one that is left out. Raises one of :data:`MALFORMED` for what is no
#: such resource.
Slim = Callable[[Any], Held | None]


def slim_version(projection: object) -> str:
    """The version of a resource whose document depends on ``projection`` alone."""
    return version_of(projection)[:_DIGITS]


@dataclass(slots=True)
class _Page:
    url: str
    etag: str | None
    next: str | None
    #: How many things the page had, those that were left out included.
    count: int
    held: list[Held]

    def kept(self) -> list[Any]:
        return [self.url, self.etag, self.next, self.count, [list(h) for h in self.held]]


class Spool:
    """Resources that were answered in this run, by list and id, out of memory's way."""

    def __init__(self) -> None:
        # Closed with the object: the run's end is the file's.
        self._file = tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES)  # noqa: SIM115
        self._places: dict[tuple[str, str], tuple[int, int]] = {}

    def put(self, name: str, id_: str, resource: object) -> None:
        data = json.dumps(resource).encode()
        self._file.seek(0, 2)
        self._places[name, id_] = (self._file.tell(), len(data))
        self._file.write(data)

    def get(self, name: str, id_: str) -> Any | None:
        """The resource, None if no page of this run had it."""
        place = self._places.get((name, id_))
        if place is None:
            return None
        self._file.seek(place[0])
        return json.loads(self._file.read(place[1]))

    def close(self) -> None:
        self._file.close()


class Listing:
    """The things of one list, by id, in the list's order."""

    def __init__(self, name: str, slim: Slim, pages: list[_Page]) -> None:
        self.name = name
        self.slim = slim
        self.pages = pages
        self._page_of = {h.id: page for page in pages for h in page.held}
        self.held = {h.id: h for page in pages for h in page.held}

    def page_of(self, id_: str) -> str:
        return self._page_of[id_].url


class Lists:
    """The lists of one service, and what is kept of them."""

    def __init__(self, client: ApiClient, state: SourceState, round_: Round) -> None:
        self._client = client
        self._state = state
        self._round = round_
        self.spool = Spool()

    def read(self, name: str, path: str, params: Mapping[str, str | int], slim: Slim) -> Listing:
        """All pages of a list. ``name`` is the key of the state.

        Raises as :meth:`ApiClient.ask`; ``E_NOT_FOUND`` (404), ``E_API`` (what is no list, or one that does
        not end), ``E_CONFLICT`` (a list that changes faster than it is read).
        """
        return self._read(name, self._url(path, params), slim, None)

    def read_each(self, lists: Iterable[tuple[str, str]], slim: Slim) -> Iterator[Listing | TabootError]:
        """Many short lists as (name, path), several asked for at a time, in their order; an error in the
        place of the list that failed."""
        #: (name, URL, whether it is asked for) of lists in their order.
        due: deque[tuple[str, str, bool]] = deque()

        def requests() -> Iterator[tuple[str, Mapping[str, str]]]:
            for name, path in lists:
                url = self._url(path, {})
                asked = not self._is_read(name) and self._round.failure(name) is None
                due.append((name, url, asked))
                if asked:
                    kept = self._kept(name).get(url)
                    yield url, {"if-none-match": kept.etag} if kept is not None and kept.etag else {}

        def read(answer: Answer | TabootError | None) -> Listing | TabootError:
            name, url, _ = due.popleft()
            if (failure := self._round.failure(name)) is not None:
                return failure
            if isinstance(answer, TabootError):
                error = answer
            else:
                try:
                    return self._read(name, url, slim, answer)
                except TabootError as raised:
                    error = raised
            if error.code not in FINAL:
                self._round.fail(name, error)
            return error

        for answer in self._client.get_each(requests()):
            while not due[0][2]:
                yield read(None)
            yield read(answer)
        while due:
            yield read(None)

    def _url(self, path: str, params: Mapping[str, str | int]) -> str:
        return self._client.url(f"{path}?{urlencode({**params, 'per_page': PER_PAGE})}")

    def _is_read(self, name: str) -> bool:
        """Whether the list need not be asked for, since this round has read it."""
        return self._round.is_done(name) and self._state.load(name) is not None

    def _kept(self, name: str) -> dict[str, _Page]:
        """The pages that are kept of a list by their URLs, those of an unfinished reading included."""
        begun = self._state.load(_begun(name))
        return {**_pages(self._state.load(name)), **_pages(begun and begun["pages"])}

    def _read(self, name: str, url: str, slim: Slim, first: Answer | None) -> Listing:
        """As :meth:`read`; ``first``: the answer of the first page, if it is there already."""
        last = _pages(self._state.load(name))
        if self._is_read(name):
            return Listing(name, slim, list(last.values()))
        kept = self._kept(name)
        begun = self._round.kept(_begun(name))
        #: Of two readings that are compared the first one, once it is whole.
        before = list(_pages(begun["before"]).values()) if begun and begun["before"] is not None else None
        pages = list(_pages(begun["pages"]).values()) if begun else []
        try:
            self._walk(name, url, kept, slim, pages, first)
            found = Listing(name, slim, pages)
            if before is None and any(h.id not in found.held for page in last.values() for h in page.held):
                # What was deleted meanwhile moves the rest forward, past a page that is already read.
                before, pages = pages, []
                self._walk(name, url, {p.url: p for p in before}, slim, pages)
                found = Listing(name, slim, pages)
        except TabootError as error:
            if error.code in FINAL and (pages or before):
                compared = None if before is None else [page.kept() for page in before]
                self._round.keep(_begun(name), {"pages": [p.kept() for p in pages], "before": compared})
            raise
        self._round.keep(_begun(name), None)
        if before is not None and Listing(name, slim, before).held != found.held:
            raise TabootError(
                "E_CONFLICT",
                f"The list {urlsplit(url).path} changes while it is read.",
                path=urlsplit(url).path,
            )
        now = [page.kept() for page in pages]
        if now != self._state.load(name):
            self._state.save(name, now)
        self._round.done(name)
        return found

    def resource(self, listing: Listing, id_: str, stored: Callable[[str], Any | None]) -> Any | None:
        """A thing itself: as it is :meth:`at_hand`, else its page is asked for again. None if it is not there
        any more."""
        found = self.at_hand(listing, id_, stored)
        if found is None:
            self._page(listing.name, listing.page_of(id_), None, listing.slim)
            found = self.spool.get(listing.name, id_)
        return found

    def at_hand(self, listing: Listing, id_: str, stored: Callable[[str], Any | None]) -> Any | None:
        """A thing itself as this run was told it; else as it is ``stored``, if that is the version that is
        listed."""
        found = self.spool.get(listing.name, id_)
        if found is None:
            found = stored(id_)
            if found is not None:
                held = slimmed(listing.slim, found)
                if held is None or held.version != listing.held[id_].version:
                    found = None
        return found

    def one(self, name: str, path: str, slim: Slim) -> Held | None:
        """A single resource, which is left in the spool if it is not what it was; None where there is none
        (404, 410, 451)."""
        kept, absent = self._state.load(name), f"{name}#absent"
        if self._round.is_done(absent):
            return None
        if kept and self._round.is_done(name):
            return Held(*kept[1])
        answer: Answer | None
        try:
            answer = self._client.get(path, etag=kept[0] if kept else None)
        except TabootError as error:
            if error.details.get("status") != 451:
                raise
            answer = None
        self._round.answered += 1
        if answer is None or answer.gone:
            self._round.done(absent)
            return None
        if answer.not_modified and kept:
            self._round.done(name)
            return Held(*kept[1])
        resource = answer.json()
        held = slimmed(slim, resource)
        if held is None:
            raise _unexpected(self._client, path)
        self.spool.put(name, held.id, resource)
        self._state.save(name, [answer.etag, list(held)])
        self._round.done(name)
        return held

    def body(self, name: str, path: str, held: Held, slim: Slim) -> Any:
        """The resource that :meth:`one` has told of."""
        found = self.spool.get(name, held.id)
        if found is None:
            answer = self._client.get(path)
            found = answer.json() if not answer.gone else None
            if found is None or slimmed(slim, found) is None:
                raise _unexpected(self._client, path)
        return found

    def _walk(
        self,
        name: str,
        url: str,
        kept: Mapping[str, _Page],
        slim: Slim,
        pages: list[_Page],
        first: Answer | None = None,
    ) -> None:
        """Add to ``pages`` those behind its last, or all from ``url`` on. Each is added as it is answered, so
        that they are there where this raises."""
        seen = {page.url for page in pages}
        ids = {h.id for page in pages for h in page.held}
        after: str | None = _after(pages[-1]) if pages else url
        while after is not None:
            if after in seen or len(pages) >= _MAX_PAGES:
                raise self._endless(after)
            seen.add(after)
            page = self._page(name, after, kept.get(after), slim, None if pages else first)
            self._round.answered += 1
            if page.held and all(h.id in ids for h in page.held):
                if pages[-1].next is None:
                    break  # a server that does not know pages by number
                raise self._endless(after)
            ids.update(h.id for h in page.held)
            pages.append(page)
            after = _after(page)

    def _page(
        self, name: str, url: str, kept: _Page | None, slim: Slim, answer: Answer | None = None
    ) -> _Page:
        if answer is None:
            answer = self._client.get(url, etag=kept.etag if kept is not None else None)
        if answer.status == 410:
            return _Page(url, None, None, 0, [])  # what a repository has switched off
        if answer.gone:
            where = urlsplit(url).path
            raise TabootError("E_NOT_FOUND", f"{self._client.service} has no {where}.", path=where)
        if answer.not_modified and kept is not None:
            return kept
        listed = answer.json()
        if not isinstance(listed, list):
            raise _unexpected(self._client, urlsplit(url).path)
        page = _Page(url, answer.etag, answer.link("next"), len(listed), [])
        for resource in listed:
            try:
                held = slim(resource)
            except MALFORMED:
                raise _unexpected(self._client, urlsplit(url).path) from None
            if held is not None:
                page.held.append(held)
                self.spool.put(name, held.id, resource)
        return page

    def _endless(self, url: str) -> TabootError:
        where = urlsplit(url).path
        return TabootError(
            "E_API", f"{self._client.service} answers with a list that does not end at {where}."
        )


def slimmed(slim: Slim, resource: Any) -> Held | None:
    """What is kept of a resource; None as well for what is none."""
    try:
        return slim(resource)
    except MALFORMED:
        return None


def _pages(kept: Any) -> dict[str, _Page]:
    return {
        url: _Page(url, etag, after, count, [Held(*held) for held in listed])
        for url, etag, after, count, listed in kept or ()
    }


def _begun(name: str) -> str:
    """The state's key of a list of which some pages are read."""
    return f"{name}~"


def _after(page: _Page) -> str | None:
    """The URL of the page behind one."""
    # A page's ETag need not tell that another has come behind it.
    return _next(page.url) if page.next is None and page.count >= PER_PAGE else page.next


def _next(url: str) -> str:
    """The URL of the next page by number."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    number = query.get("page", "1")
    query["page"] = str(int(number) + 1 if number.isdecimal() else 2)
    return parts._replace(query=urlencode(query)).geturl()


def _unexpected(client: ApiClient, where: str) -> TabootError:
    return TabootError(
        "E_API", f"{client.service} answers with something else than its API says at {where}.", path=where
    )


def by_thread(listing: Listing) -> dict[int, list[Held]]:
    """The things of a list by the number of their thread, in the order of their ids."""
    found: dict[int, list[Held]] = {}
    for held in listing.held.values():
        found.setdefault(held.of, []).append(held)
    for each in found.values():
        each.sort(key=lambda h: (len(h.id), h.id))
    return found
