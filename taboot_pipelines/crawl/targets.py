"""Which links a crawl follows, and how much each is worth.

A link is followed on the hosts of the listed URLs, beneath their folders: what a person means who lists
``https://example.org/docs/``. Two hosts that differ only by a leading ``www.`` are one. With ``include`` a
link is followed wherever on these hosts a glob matches, and to any other host only where a glob matches that
names the host by ``://``; ``exclude`` always wins. Links to images, archives and the like are not followed,
since nothing of them would be read; those to PDFs and Word documents are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from taboot_pipelines.crawl.discovery.relevance import Relevance
from taboot_pipelines.crawl.links import MAX_URL_LENGTH
from taboot_pipelines.crawl.urls import WebUrl, canonical_key, parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.crawls import url_id

#: Changes with every change of which links are followed on a given page.
TARGETS_VERSION = "2"
#: So many links are remembered with what was made of them: most pages of a site lead to the same ones.
_MAX_REMEMBERED = 20_000
_NO_PAGE = frozenset(
    """
    7z aac apk appimage avi avif bin bmp bz2 class css deb dmg eot epub exe flac gif gz ico
    img iso jar jpeg jpg js m4a m4v map mjs mkv mov mp3 mp4 mpeg mpg msi odp ods odt ogg ogv otf
    png ppt pptx rar rpm so svg swf tar tgz tif tiff ttf wasm wav webm webmanifest webp wmv woff
    woff2 xls xlsx xz zip zst
    """.split()  # noqa: SIM905 - a list of them would take a line each
)

Test = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Target:
    """A page that may be asked for; ``preferred``: before all others."""

    url_id: bytes
    key: str
    url: str
    host: str
    preferred: bool


@dataclass(frozen=True, slots=True)
class Folder:
    """A host, with its port unless that is the scheme's and without ``www.``, and a path that ends in
    ``/``."""

    host: str
    path: str

    @classmethod
    def of(cls, url: WebUrl) -> Folder:
        """The folder that the page ``url`` lies in: its path up to the last slash."""
        path = url.target.partition("?")[0]
        return cls(_host(url), path[: path.rindex("/") + 1])


class Targets:
    """``folders``: where the listed URLs lie. ``included`` (None: no glob was given), ``elsewhere`` (those
    globs alone that name a host), ``excluded`` and ``preferred`` look at a canonical key.
    """

    def __init__(
        self,
        folders: Iterable[Folder],
        *,
        included: Test | None = None,
        elsewhere: Test | None = None,
        excluded: Test | None = None,
        preferred: Test | None = None,
        keywords: Sequence[str] = (),
    ) -> None:
        self._folders = frozenset(folders)
        self._hosts = {f.host for f in self._folders}
        self._included, self._elsewhere, self._excluded = included, elsewhere, excluded
        self._preferred = preferred
        self._relevance = Relevance(keywords)
        self._remembered: dict[str, Target | None] = {}
        #: URLs that were found and not yet asked for: as a rule they are parsed once.
        self._parsed: dict[str, WebUrl] = {}

    @property
    def scoring(self) -> bool:
        """Whether there are keywords to score by."""
        return bool(self._relevance)

    def listed(self, url: WebUrl, key: str) -> Target:
        """A page that is listed: it is asked for wherever it lies."""
        preferred = self._preferred is not None and self._preferred(key)
        if len(self._parsed) >= _MAX_REMEMBERED:
            self._parsed.clear()
        self._parsed[url.text] = url
        return Target(url_id(key), key, url.text, url.authority, preferred)

    def parsed(self, text: str) -> WebUrl:
        """The URL of a target. Raises ``E_URL_BAD`` for one that this version refuses."""
        return self._parsed.pop(text, None) or parse_url(text)

    def link(self, text: str) -> Target | None:
        """The page that an absolute URL leads to, None if it is not followed."""
        try:
            return self._remembered[text]
        except KeyError:
            pass
        if len(self._remembered) >= _MAX_REMEMBERED:
            self._remembered.clear()
        target = self._remembered[text] = self._of(text)
        return target

    def _of(self, text: str) -> Target | None:
        try:
            url = parse_url(text)
        except TabootError:
            return None
        key = canonical_key(url)
        if len(key.encode()) > MAX_URL_LENGTH or not self._follows(url, key):
            return None
        return self.listed(url, key)

    def _follows(self, url: WebUrl, key: str) -> bool:
        path = url.target.partition("?")[0]
        name = path.rpartition("/")[2]
        if "." in name and name.rpartition(".")[2].lower() in _NO_PAGE:
            return False
        if self._excluded is not None and self._excluded(key):
            return False
        host = _host(url)
        if self._included is not None:
            ours = host in self._hosts and self._included(key)
            return ours or (self._elsewhere is not None and self._elsewhere(key))
        return any(f.host == host and path.startswith(f.path) for f in self._folders)

    def score(self, url: str, text: str) -> float:
        """How much a link promises, from 0 to 1, by its text and URL; without keywords all score 1."""
        return self._relevance.score(url, text)


def _host(url: WebUrl) -> str:
    return url.authority.removeprefix("www.")
