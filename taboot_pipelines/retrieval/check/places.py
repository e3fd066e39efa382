"""Where the two sides of a check lie: commits of a repository, a folder as it is, what a home has published.

A commit is laid out in a folder of its own, which goes when the check ends, and read there like any folder,
links and all. Git's own settings hold; its large files are not fetched, and hooks do not run.
"""

from __future__ import annotations

import os
import posixpath
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from taboot_pipelines.connectors.entries import DirectorySource
from taboot_pipelines.connectors.files import is_env, source_directory
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Role
from taboot_pipelines.retrieval.check.states import Files, files_of, names_set
from taboot_pipelines.retrieval.queries.citations import listed
from taboot_pipelines.settings import Settings
from taboot_pipelines.stages.health import catalog_exists
from taboot_pipelines.stages.source_state import tombstoned_paths
from taboot_pipelines.stages.tier_a_triples import has_projects
from taboot_pipelines.stages.tiers import kind_of
from taboot_pipelines.stages.workspace import Entry, Workspace, stored_entry


@dataclass(frozen=True)
class Sides:
    """The files of both sides, source by source, and what each side is in words."""

    before: Sequence[Files]
    after: Sequence[Files]
    names: tuple[str, str]
    notes: tuple[str, ...] = ()


# --- A repository


@dataclass(frozen=True)
class Repository:
    """A git repository, by the top of its working tree."""

    top: Path

    @classmethod
    def of(cls, folder: Path) -> Repository:
        """The repository that a folder lies in. Raises ``E_PATH``."""
        top = _git(folder, "rev-parse", "--show-toplevel")
        if top is None and any((at / ".git").exists() for at in (folder, *folder.parents)):
            raise TabootError(
                "E_UNREADABLE",
                f"git does not open the repository that {folder} lies in.",
                remedy=f"`git -C {folder} status` says why; of another user's folder, as in CI, its setting"
                " `safe.directory` lets it.",
            )
        if top is None:
            raise TabootError(
                "E_PATH",
                f"{folder} lies in no git repository, and no home has published what is in it.",
                remedy="Name a folder of a repository, or ingest it first.",
            )
        return cls(Path(top))

    def commit(self, revision: str) -> str:
        """The commit that a revision means. Raises ``E_QUERY``."""
        found = _git(
            self.top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
        )
        if found is None:
            raise TabootError(
                "E_QUERY",
                f"The repository {self.top} has no commit {revision[:100]!r}.",
                remedy="Name one that `git log` shows; what is not here (a shallow clone, as in CI) has to be"
                " fetched first.",
            )
        return found

    def ends(self, range_: str) -> tuple[str, str | None]:
        """The commits of ``A..B``, or of ``A...B`` from where both part; of ``A`` alone that and None, which
        is the folder as it is. Raises ``E_QUERY``."""
        base, dots, head = range_.partition("...")
        if dots:
            ends = self.commit(base or "HEAD"), self.commit(head or "HEAD")
            return _git(self.top, "merge-base", *ends) or ends[0], ends[1]
        base, dots, head = range_.partition("..")
        return self.commit(base or "HEAD"), self.commit(head or "HEAD") if dots else None

    @contextmanager
    def laid_out(self, commit: str) -> Iterator[Path]:
        """The files of a commit in a folder of their own."""
        with tempfile.TemporaryDirectory(prefix="taboot-check-") as temporary:
            tree = Path(temporary, "tree")
            # Links may lead anywhere in a repository, which is known by this.
            (tree / ".git").mkdir(parents=True)
            self._lay_out(commit, tree, Path(temporary, "index"))
            yield tree

    def _lay_out(self, commit: str, tree: Path, index: Path) -> None:
        """Write the files of a commit, and of the submodules that are here, each at the commit it names."""
        more = {"GIT_INDEX_FILE": str(index), "GIT_LFS_SKIP_SMUDGE": "1"}
        read = _git(self.top, "read-tree", commit, more=more)
        if read is None or _git(self.top, "checkout-index", "-a", f"--prefix={tree}/", more=more) is None:
            raise TabootError(
                "E_UNREADABLE",
                f"The commit {commit} of {self.top} cannot be laid out in {tree}.",
                remedy="There must be room, and the commit whole: `git fsck` says whether it is.",
            )
        for line in (_git(self.top, "ls-files", "-s", "-z", more=more) or "").split("\0"):
            about, _, path = line.partition("\t")
            if about.startswith("160000 ") and (self.top / path / ".git").exists():
                module = Repository(self.top / path)
                named = about.split()[1]
                module._lay_out(module.commit(named), tree / path, index.with_name(f"{index.name}.{named}"))

    def ignored(self, paths: Collection[str]) -> set[str]:
        """Those of some paths, from the top, that git leaves out of the repository."""
        told = _git(self.top, "check-ignore", "-z", "--stdin", given="\0".join(paths)) if paths else None
        return set((told or "").split("\0")) - {""}

    def with_unseen(self, files: Files, tree: Path | None = None) -> Files:
        """Some files with the folders whose ``.env`` git leaves out, whether or not one lies there. ``tree``:
        the state by whose rules, where that is not the working tree."""
        directory, top = directory_of(files.entry), Path(os.path.realpath(tree or self.top))
        if not directory.is_relative_to(self.top):
            return files
        base = top / directory.relative_to(self.top)
        folders = {posixpath.dirname(path) for path in files.items}
        # Git asks for no path beyond a link.
        places = {f: os.path.relpath(os.path.realpath(base / f), top) for f in folders}
        paths = {f: posixpath.normpath(f"{at}/.env") for f, at in places.items() if not at.startswith("..")}
        own = _git(self.top, "rev-parse", "--absolute-git-dir") or ""
        told = _git(
            *(top, "check-ignore", "--no-index", "-z", "--stdin"),
            given="\0".join(sorted(set(paths.values()))),
            more={"GIT_DIR": own, "GIT_WORK_TREE": str(top)},
        )
        ignored = set((told or "").split("\0"))
        return replace(files, unseen=frozenset(f for f, path in paths.items() if path in ignored))

    def left_out(self, folder: Path) -> dict[str, frozenset[str]]:
        """The names that files of variables set which lie in the working tree and git leaves out, by their
        folder from ``folder``. What they set them to belongs to no commit."""
        listed = _git(self.top, "ls-files", "-o", "-i", "--exclude-standard", "-z", "--", "*.env*")
        found: dict[str, frozenset[str]] = {}
        for path in (listed or "").split("\0"):
            file = self.top / path
            if is_env(file.name) and file.is_file():
                at = posixpath.normpath(os.path.relpath(file.parent, folder))
                found[at] = found.get(at, frozenset()) | names_set(file.read_bytes())
        return found


#: Where a hook has its repository, by paths from its own folder.
_OF_A_HOOK = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"})


def _git(folder: Path, *arguments: str, given: str = "", more: dict[str, str] | None = None) -> str | None:
    """What git says; None where it fails. Raises ``E_UNREADABLE`` without git."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        ended = subprocess.run(
            command,
            input=given,
            capture_output=True,
            encoding="utf-8",
            # Names of files are bytes.
            errors="surrogateescape",
            check=False,
            env={**{k: v for k, v in os.environ.items() if k not in _OF_A_HOOK}, **(more or {})},
        )
    except FileNotFoundError:
        raise TabootError(
            "E_UNREADABLE",
            "git is not installed, which a check of commits needs.",
            remedy="Install git; or ingest the folder: it is then compared with what is published.",
        ) from None
    return ended.stdout.strip("\n") if ended.returncode == 0 else None


def shown(directory: Path, folder: Path) -> str:
    """How the place of a source's folder is told: from the folder that is checked."""
    return f"/{os.path.relpath(directory, folder)}"


@contextmanager
def of_commits(
    repository: Repository,
    range_: str,
    folder: Path,
    entries_of: Callable[[Sequence[Path]], Sequence[Entry]],
    settings: Settings,
) -> Iterator[Sides]:
    """The sides of a range of commits, or of a commit and the folder as it is. ``entries_of``: the sources of
    the folder, of which states lie in some places. Raises as :meth:`Repository.ends`."""
    base, head = repository.ends(range_)
    inner = folder.relative_to(repository.top)
    with repository.laid_out(base) as tree:
        if head is None:
            entries = entries_of([tree / inner, folder])
            before = [_laid_out(entry, repository, tree, folder, settings) for entry in entries]
            after = [repository.with_unseen(_as_it_is(entry, folder, settings)) for entry in entries]
            whole = [_with_ignored(old, new, repository) for old, new in zip(before, after, strict=True)]
            notes = (*_empty(whole, after), *_uncompared(before, whole))
            yield Sides(whole, after, (base[:12], "the folder as it is"), notes)
            return
        with repository.laid_out(head) as other:
            entries = entries_of([tree / inner, other / inner])
            before = [_laid_out(entry, repository, tree, folder, settings) for entry in entries]
            after = [
                repository.with_unseen(_laid_out(entry, repository, other, folder, settings), other)
                for entry in entries
            ]
        left_out = repository.left_out(folder)
        after = [replace(files, left_out=left_out) for files in after]
        yield Sides(before, after, (base[:12], head[:12]), _empty(before, after))


def _empty(before: Sequence[Files], after: Sequence[Files]) -> tuple[str, ...]:
    """A note for each source that has no file on either side."""
    none = [
        b for b, a in zip(before, after, strict=True) if not (b.items or b.problems or a.items or a.problems)
    ]
    return tuple(f"The source {f.entry.source_id} has no file in {f.shown[1:]}." for f in none)


def _uncompared(before: Sequence[Files], whole: Sequence[Files]) -> Iterator[str]:
    """A note of the files of variables that are on both sides as they are, since no commit has them."""
    kept = {
        w.told(path)
        for b, w in zip(before, whole, strict=True)
        for path in w.items.keys() - b.items.keys()
        if is_env(posixpath.basename(path))
    }
    if kept:
        names = sorted(kept, key=lambda path: (path.count("/"), path))
        yield f"Not compared, since git leaves it out: {listed(names[:3], len(names))}."


def directory_of(entry: Entry) -> Path:
    """The directory of a source, links followed."""
    return Path(os.path.realpath(source_directory(str(getattr(entry.config, "path", ".")), entry.root)))


def _laid_out(entry: Entry, repository: Repository, tree: Path, folder: Path, settings: Settings) -> Files:
    directory = directory_of(entry)
    place = (
        tree / directory.relative_to(repository.top)
        if directory.is_relative_to(repository.top)
        else directory
    )
    return files_of(entry, shown(directory, folder), settings, place)


def _as_it_is(entry: Entry, folder: Path, settings: Settings) -> Files:
    return files_of(entry, shown(directory_of(entry), folder), settings)


def _with_ignored(before: Files, after: Files, repository: Repository) -> Files:
    """A commit's files with those that are there and that git leaves out: they are no part of the change."""
    directory = directory_of(after.entry)
    if not directory.is_relative_to(repository.top):
        return before
    at = directory.relative_to(repository.top).as_posix()
    paths = {os.path.normpath(f"{at}/{path}"): path for path in after.items.keys() - before.items.keys()}
    kept = {paths[path] for path in repository.ignored(paths)}
    return replace(before, items={**before.items, **{path: after.items[path] for path in kept}})


# --- A home


def opened(settings: Settings) -> Workspace | None:
    """The home, to be read only; None where there is none."""
    if not catalog_exists(settings):
        return None
    return Workspace(settings.model_copy(update={"read_only": True}))


def of_home(folder: Path, settings: Settings, workspace: Workspace) -> Sides | None:
    """What the home has published of the sources that lie in a folder, or that it lies in, beside these as
    they are; the configuration that its other sources have is on both sides. None where it has none."""
    rows = workspace.catalog.sources.find(settings.namespace, ("active",))
    entries = [e for e in map(stored_entry, rows) if isinstance(e.config, DirectorySource)]
    inside = [
        e for e in entries if directory_of(e).is_relative_to(folder) or folder.is_relative_to(directory_of(e))
    ]
    if not inside:
        return None
    before, after = [], []
    for entry in entries:
        if entry in inside or has_projects(kind_of(entry)):
            published = _published(entry, folder, workspace)
            before.append(replace(published, beside=_committed(entry)) if entry in inside else published)
            after.append(
                _now(entry, published, folder, settings, workspace) if entry in inside else published
            )
    others = len(rows) - len(before)
    notes = (f"{others} sources that hold no configuration here were not looked at.",) if others else ()
    return Sides(before, after, ("what is published", "the folder as it is"), notes)


def _now(entry: Entry, published: Files, folder: Path, settings: Settings, workspace: Workspace) -> Files:
    found = _as_it_is(entry, folder, settings)
    with suppress(TabootError):
        found = Repository.of(directory_of(entry)).with_unseen(found)
    # What was taken in and is gone now is known not to be there.
    gone = {posixpath.dirname(path) for path in published.items if posixpath.basename(path) == ".env"}
    deleted = tombstoned_paths(workspace, entry)
    items = {path: item for path, item in found.items.items() if not deleted(path)}
    return replace(found, items=items, unseen=found.unseen - gone)


def _committed(entry: Entry) -> frozenset[str]:
    """The paths of all that the last commit has of a source, which reads but some; none without git."""
    try:
        listed = _git(directory_of(entry), "ls-tree", "-r", "-z", "--name-only", "HEAD")
    except TabootError:
        return frozenset()
    return frozenset((listed or "").split("\0")) - {""}


def _published(entry: Entry, folder: Path, workspace: Workspace) -> Files:
    located = workspace.catalog.locators.of_source(entry.namespace, entry.source_id)
    items: dict[str, tuple[Role, bytes]] = {}
    for path, x in located.items():
        if x.state == "present":
            role: Role = "input" if x.role == "input" else "document"
            items[path] = role, workspace.blobs.get(entry.namespace, x.sha256)
    return Files(entry, shown(directory_of(entry), folder), items)
