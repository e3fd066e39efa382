"""What a source type is, in one class: its entries, its reader, its documents, and what these count for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

if TYPE_CHECKING:
    from taboot_pipelines.connectors.access import Access
    from taboot_pipelines.connectors.entries import SourceEntry
    from taboot_pipelines.connectors.protocol import Connector
    from taboot_pipelines.documents.forms import Form
    from taboot_pipelines.knowledge.project_units import ProjectExtractor

E = TypeVar("E", bound="SourceEntry")


class Stance(StrEnum):
    """What documents are to the house whose knowledge base holds them."""

    #: Configuration in force: things are so because it says so.
    DECLARES = "declares"
    #: What the house's own systems know or noted: inventories, logs.
    RECORDS = "records"
    #: What runs, as engines and machines said at a time: it is compared with what is declared, and declares
    #: nothing.
    RUNS = "runs"
    #: Texts and files that are kept right; only their content tells whether they speak of this house.
    DOCUMENTS = "documents"
    #: What people said at a time, and nobody changes afterwards: threads, mail, videos, issues.
    DISCUSSES = "discusses"
    #: The same, where most of what is said is a suggestion: what such a document says of a thing ranks
    #: beneath what any other document says, and makes no name known.
    PROPOSES = "proposes"

    @property
    def of_the_house(self) -> bool:
        """Whether such a source is the house's own, whatever it says."""
        return self in (Stance.DECLARES, Stance.RECORDS, Stance.RUNS)

    @property
    def of_a_time(self) -> bool:
        """Whether such a document says what was so when it was written, and not what is so."""
        return self in (Stance.DISCUSSES, Stance.PROPOSES)


@dataclass(frozen=True, slots=True)
class Beginning:
    """How ``taboot init`` finds folders of a type, and what it writes of one besides id, type and path.

    ``takes``: whether a file is one of the type's; ``comment`` stands above the entry, ``lines`` below its
    path; ``label`` is added to an id that another source has. ``in_projects``: whether a file stands for its
    folder, so that the source is what holds these; ``the_rest``: whether one source has all that no other
    takes. ``proxy``: the name of the reverse proxy that some files are of or speak to, None where they are
    of none. ``reads_too``: whether its source also makes documents of files of a name beneath its folder.
    """

    takes: Callable[[Path], bool]
    comment: str
    lines: tuple[str, ...]
    label: str
    in_projects: bool = False
    the_rest: bool = False
    proxy: Callable[[Sequence[Path]], str | None] = lambda _: None
    reads_too: Callable[[str], bool] = lambda _: False


class SourceKind(ABC, Generic[E]):
    """A source type. Everything that differs by type is asked of its kind, and nothing else reads its name.

    A kind holds no state and imports what it names only when asked for it: the names and the stances of all
    types cost a search nothing. Those of this project are in :mod:`taboot_pipelines.sources.builtin`; a
    package of its own adds one by an entry point of the group ``taboot_pipelines.sources``, whose name is
    that of the type.
    """

    #: What ``type`` says in entries, ``source_type`` in tables; of lower case letters, digits and ``_``.
    name: ClassVar[str]
    stance: ClassVar[Stance]
    #: Whether the folder of a document is a project of services that runs as such.
    projects: ClassVar[bool] = False
    #: Whether what its files declare runs in the house where they name no machine: somebody keeps them here.
    kept_here: ClassVar[bool] = False
    #: Raise it when a form of the type would make another document of the same bytes; part of the documents'
    #: fingerprints where it is not empty.
    parsing: ClassVar[str] = ""
    #: Lines of an entry that ``taboot init`` leaves to be filled in, the first being its id.
    sketch: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def entry(self) -> type[E]:
        """The model of the entries, whose field ``type`` is a literal of :attr:`name`."""

    @abstractmethod
    def connect(self, entry: E, access: Access) -> Connector:
        """What reads the source of an entry. No I/O happens before its ``events`` are iterated."""

    def stance_of(self, mime: str) -> Stance:
        """The stance of documents of one media type."""
        return self.stance

    @property
    def forms(self) -> Mapping[str, Form]:
        """What renders the documents that are not text as they are stored, by media type; each begins with
        ``documents.mime.RESOURCE``."""
        return {}

    def extractors(self, interprets: bool) -> Sequence[ProjectExtractor]:
        """The deterministic extractors that read several files; ``interprets``: of an entry with ``interpret:
        true``. Prose is read in every type."""
        return ()

    @property
    def beginning(self) -> Beginning | None:
        """How ``taboot init`` finds folders of the type; None if it does not look for any."""
        return None
