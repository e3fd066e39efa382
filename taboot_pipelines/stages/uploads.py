"""Takes in documents beside the sources file: files, pages and bytes that somebody hands over.

What is handed over is stored, and recorded in the catalog as an input of the namespace's source of type
``uploads``; the chain of that source then makes it searchable. A path that was uploaded before gets the new
bytes, as a file that is edited, and one that was deleted is there again.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from taboot_pipelines.connectors.files import FilesSource, is_env, is_example
from taboot_pipelines.connectors.uploads import UploadsSource
from taboot_pipelines.connectors.web import WebSource
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.model.records import Failed, Fetched, Skipped, UploadedItem
from taboot_pipelines.stages import deletion
from taboot_pipelines.stages.quotas import Meter
from taboot_pipelines.stages.raw_blobs import MAX_PATH_BYTES, keep_for_upload
from taboot_pipelines.stages.running import run_chain
from taboot_pipelines.stages.source_state import open_source
from taboot_pipelines.stages.tags import checked, tag
from taboot_pipelines.stages.workspace import Entry, Progress, Workspace, entry_row, no_progress
from taboot_pipelines.stores.catalog.writing import Row

_URL = re.compile(r"(?i)https?://")
#: So many documents are recorded at once, and are in memory until then.
BATCH = 50


@dataclass(frozen=True, slots=True)
class Handed:
    """A document that is handed over: its path in the source, its bytes, and where they are from, fields as
    in ``model.records.Fetched``."""

    path: str
    data: bytes
    mime: str | None = None
    charset: str | None = None
    url: str | None = None
    final_url: str | None = None


@dataclass(frozen=True, slots=True)
class Uploaded:
    """What became of a document that was handed over: ``new``, ``replaced``, ``unchanged``, or ``failed``
    with the code and the reason (its bytes are kept all the same)."""

    path: str
    doc_id: str
    state: str
    code: str | None = None
    message: str | None = None


def take(
    workspace: Workspace,
    namespace: str,
    documents: Iterable[str | Path | bytes],
    name: str | None = None,
    *,
    tags: Collection[str] = (),
    allow_cidrs: Sequence[str] = (),
    render: bool = False,
    progress: Progress = no_progress,
) -> list[Uploaded]:
    """Upload what somebody hands over, see :func:`handed`, and give it tags. Raises as :func:`upload`."""
    wanted = sorted({checked(tag) for tag in tags})
    items = (
        item
        for what in documents
        for item in handed(workspace, namespace, what, name, allow_cidrs=allow_cidrs, render=render)
    )
    done = upload(workspace, namespace, items, progress)
    served = [x.doc_id for x in done if x.code is None]
    if wanted and served:
        tag(workspace, namespace, served, add=wanted)
    return done


def upload(
    workspace: Workspace, namespace: str, handed: Iterable[Handed], progress: Progress = no_progress
) -> list[Uploaded]:
    """Store documents and take them through the chain; return what became of each, in their order.

    They are stored in parts of :data:`BATCH`. What a part has stored stays, whatever fails afterwards, and
    the next ingest takes it in. Raises ``E_PATH`` for a path that can be none, ``E_TOO_LARGE`` and
    ``E_EMPTY``, ``E_QUERY`` for two documents of one path, ``E_QUOTA``, and what the stages raise.
    """
    ids.check_namespace(namespace)
    source_id = ids.uploads_source(namespace)
    states: dict[str, str] = {}
    waiting = iter(handed)
    there = {x.doc_id for x in workspace.catalog.locators.of_source(namespace, source_id).values()}
    meter = Meter(workspace, namespace)
    while part := list(islice(waiting, BATCH)):
        for item in part:
            path = _path(item)
            if path in states:
                raise TabootError(
                    "E_QUERY",
                    f"Two documents are to be uploaded as {path!r}.",
                    remedy="Give them names of their own.",
                    path=path,
                )
            check_size(workspace, path, item.data)
            new = ids.doc_id(namespace, ids.locator(source_id, path)) not in there
            meter.take(ids.sha256_hex(item.data), len(item.data), new_document=new)
            states[path] = "new"
        states |= _store(workspace, namespace, source_id, part)
    if not states:
        return []
    run_chain(workspace, source_id, progress)
    letters = {
        letter["item"]: letter
        for letter in workspace.catalog.dead_letters.find(namespace, source_id)
        if letter["code"] != "E_TOMBSTONED"
    }
    return [_result(namespace, source_id, path, state, letters.get(path)) for path, state in states.items()]


def _result(namespace: str, source_id: str, path: str, state: str, letter: Row | None) -> Uploaded:
    doc_id = ids.doc_id(namespace, ids.locator(source_id, path))
    if letter is None:
        return Uploaded(path, doc_id, state)
    return Uploaded(path, doc_id, "failed", letter["code"], letter["message"])


def handed(
    workspace: Workspace,
    namespace: str,
    what: str | Path | bytes,
    name: str | None = None,
    *,
    allow_cidrs: Sequence[str] = (),
    render: bool = False,
) -> Iterator[Handed]:
    """Yield what somebody hands over: bytes, a page by its URL, a file, or the documents of a folder.

    ``name``: the path in the source; bytes need one, a file is called as it is by default, and what lies in
    a folder begins with the folder's name. Of a folder those files are taken that a source of type ``files``
    takes. ``allow_cidrs`` and ``render``: see :func:`fetch_page`. Raises ``E_PATH``, ``E_UNREADABLE``,
    ``E_TOO_LARGE``, and ``E_QUERY`` for bytes without a name.
    """
    if isinstance(what, bytes):
        if name is None:
            raise TabootError("E_QUERY", "Bytes need a name.", remedy="Give one, such as notes/router.md.")
        yield Handed(name, what)
        return
    if isinstance(what, str) and _URL.match(what):
        page = fetch_page(workspace, namespace, what, allow_cidrs=allow_cidrs, render=render)
        yield page if name is None else replace(page, path=name)
        return
    path = Path(what).expanduser()
    if path.is_dir():
        yield from _of_folder(workspace, namespace, path, name or path.absolute().name)
        return
    if is_env(path.name) and not is_example(path.name):
        raise TabootError("E_PATH", f"{path} is an environment file, which is no document.", path=str(path))
    yield Handed(name or path.name, _read(workspace, path))


def _of_folder(workspace: Workspace, namespace: str, folder: Path, name: str) -> Iterator[Handed]:
    entry = FilesSource(id=ids.uploads_source(namespace), type="files", namespace=namespace, path=str(folder))
    opened = Entry(namespace, entry.id, "active", entry, Path.cwd())
    for event in open_source(workspace, opened, {}, None).events({}, lambda _: False):
        match event:
            case Fetched():
                yield Handed(f"{name}/{event.path}", event.data)
            case Failed():
                raise event.error
            case Skipped():
                raise TabootError(event.code, event.message, path=event.path)


def _read(workspace: Workspace, path: Path) -> bytes:
    limit = workspace.settings.limits.max_blob_bytes
    try:
        # A pipe, or a device, would be read for ever.
        if not path.is_file():
            what = "is no file" if path.exists() else "does not exist"
            raise TabootError("E_PATH", f"{path} {what}.", path=str(path))
        with path.open("rb") as file:
            return file.read(limit + 1)
    except OSError as error:
        raise TabootError(
            "E_UNREADABLE", f"{path} cannot be read ({type(error).__name__}).", path=str(path)
        ) from None


def _path(item: Handed) -> str:
    """The path of a document; that of a page is the key of its URL, unless it was given a name."""
    return item.path if item.url is not None and _URL.match(item.path) else check_path(item.path)


def check_path(name: str) -> str:
    """Return a name as the path of a document: NFC, relative, with ``/``. Raises ``E_PATH``."""
    path = unicodedata.normalize("NFC", name)
    parts = path.split("/")
    fits = all(c.isprintable() for c in path) and len(path.encode()) <= MAX_PATH_BYTES
    if not fits or not {"", ".", ".."}.isdisjoint(parts):
        raise TabootError(
            "E_PATH",
            f"A document cannot be called {name[:80]!r}.",
            remedy="Use a relative path of printable characters, with `/` between folders, such as"
            " manuals/router.pdf.",
            path=name[:200],
        )
    return path


def check_size(workspace: Workspace, path: str, data: bytes) -> None:
    """Raise ``E_TOO_LARGE`` or ``E_EMPTY`` for bytes that can be no document."""
    limit = workspace.settings.limits.max_blob_bytes
    if len(data) > limit:
        raise TabootError("E_TOO_LARGE", f"{path} has more than {limit:,} bytes.", path=path)
    if not data:
        raise TabootError("E_EMPTY", f"{path} has no bytes.", path=path)


def add_source(workspace: Workspace, namespace: str, source_id: str) -> None:
    """Make the namespace's source of uploads, if it is not there."""
    with workspace.adding_sources(namespace):
        known = {row["source_id"]: row for row in workspace.catalog.sources.find(namespace)}
        if source_id not in known or known[source_id]["state"] != "active":
            entry = UploadsSource(id=source_id, type="uploads", namespace=namespace)
            root = workspace.settings.sources_file.absolute().parent
            workspace.catalog.sources.add(namespace, source_id, entry_row(entry, root))


def _store(workspace: Workspace, namespace: str, source_id: str, part: Sequence[Handed]) -> dict[str, str]:
    """Store documents and record them; return what is so of each path: new, replaced or unchanged."""
    catalog = workspace.catalog
    add_source(workspace, namespace, source_id)
    doc_ids = {ids.doc_id(namespace, ids.locator(source_id, _path(x))) for x in part}
    deleted = sorted(doc_ids & catalog.tombstones.all(namespace).keys())
    if deleted:
        deletion.restore(workspace, namespace, deleted)
    # Whoever removes bytes that nobody knows of holds this lease too.
    with workspace.leases.source(namespace, source_id):
        before = {x.path: x for x in catalog.uploaded.all(namespace)}
        items = [
            UploadedItem(
                _path(x),
                _put(workspace, namespace, x.data),
                len(x.data),
                x.mime,
                x.charset,
                x.url,
                x.final_url,
            )
            for x in part
        ]
        catalog.uploaded.put(namespace, items, workspace.blobs.path(namespace, "").rstrip("/"))
    return {
        x.path: "new" if x.path not in before else "unchanged" if before[x.path] == x else "replaced"
        for x in items
    }


def _put(workspace: Workspace, namespace: str, data: bytes) -> str:
    """Store bytes, or keep them until the object store answers; return their SHA-256."""
    try:
        return workspace.blobs.put(namespace, data)[0]
    except TabootError as error:
        if not keep_for_upload(workspace, namespace, data, error):
            raise
        return ids.sha256_hex(data)


def fetch_page(
    workspace: Workspace, namespace: str, url: str, *, allow_cidrs: Sequence[str] = (), render: bool = False
) -> Handed:
    """Fetch one page as a crawl does: its addresses checked, robots.txt heeded, its host asked politely.

    ``allow_cidrs`` and ``render`` are those of sources of type ``web``. Raises ``E_QUERY`` for what is no
    URL, and what a page fails with.
    """
    source_id = ids.uploads_source(namespace)
    try:
        entry = WebSource(
            id=source_id,
            type="web",
            namespace=namespace,
            urls=[url],
            max_pages=1,
            allow_cidrs=list(allow_cidrs),
            render=render,
        )
    except ValueError:
        raise TabootError("E_QUERY", f"{url[:200]!r} is no URL that a page is read from.") from None
    opened = Entry(namespace, source_id, "active", entry, workspace.settings.sources_file.absolute().parent)
    failure = TabootError("E_NOT_FOUND", f"There is no page at {url[:200]}.", url=url[:200])
    for event in open_source(workspace, opened, {}, None).events({}, lambda _: False):
        if isinstance(event, Fetched) and event.role == "document":
            return Handed(event.path, event.data, event.mime, event.charset, event.url, event.final_url)
        code, message = getattr(event, "code", None), getattr(event, "message", None)
        error = getattr(event, "error", None)
        if isinstance(error, TabootError):
            failure = error
        elif code is not None and message is not None:
            failure = TabootError(code, message, url=url[:200])
    raise failure
