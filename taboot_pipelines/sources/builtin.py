"""The source types of this project, in the order in which the schema and the page name them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from taboot_pipelines.model.records import GITHUB_THREADS
from taboot_pipelines.sources.kind import Beginning, SourceKind, Stance

if TYPE_CHECKING:
    from taboot_pipelines.connectors.access import Access
    from taboot_pipelines.connectors.ai_session import AiSessionSource
    from taboot_pipelines.connectors.compose import ComposeSource
    from taboot_pipelines.connectors.elasticsearch.entry import ElasticsearchSource
    from taboot_pipelines.connectors.files import FilesSource, SwagSource
    from taboot_pipelines.connectors.github.entry import GithubSource
    from taboot_pipelines.connectors.gmail.entry import GmailSource
    from taboot_pipelines.connectors.protocol import Connector
    from taboot_pipelines.connectors.reddit.entry import RedditSource
    from taboot_pipelines.connectors.runtime import RuntimeSource
    from taboot_pipelines.connectors.tailscale import TailscaleSource
    from taboot_pipelines.connectors.unifi.connector import UnifiSource
    from taboot_pipelines.connectors.uploads import UploadsSource
    from taboot_pipelines.connectors.web import WebSource
    from taboot_pipelines.connectors.youtube.entry import YoutubeSource
    from taboot_pipelines.documents.forms import Form
    from taboot_pipelines.knowledge.project_units import ProjectExtractor

#: The repository of a file of GitHub, with its slash.
_REPOSITORY = re.compile(r"[^/#]+/[^/#]+/")


class Files(SourceKind["FilesSource"]):
    """A directory of documents."""

    name = "files"
    stance = Stance.DOCUMENTS
    kept_here = True

    @property
    def entry(self) -> type[FilesSource]:
        from taboot_pipelines.connectors.files import FilesSource

        return FilesSource

    def connect(self, entry: FilesSource, access: Access) -> Connector:
        from taboot_pipelines.connectors.files import FilesConnector

        return FilesConnector(entry, access)

    def extractors(self, interprets: bool) -> Sequence[ProjectExtractor]:
        from taboot_pipelines.extraction.tier_a.config_files import ConfigFiles

        return (ConfigFiles(),) if interprets else ()

    @property
    def beginning(self) -> Beginning:
        from taboot_pipelines.connectors.files import DEFAULT_INCLUDE
        from taboot_pipelines.connectors.globs import Globs
        from taboot_pipelines.sources.configuration import is_configuration, proxy_of_files

        text = Globs(DEFAULT_INCLUDE)
        return Beginning(
            lambda file: text.matches(file.name.lower()) or is_configuration(file),
            "All other text: documents, and configuration.",
            (
                "interpret: true        # what known formats declare becomes relations in the graph",
                "# host: nas.lan        # the machine that the configuration is of",
                "# languages: [en]      # texts in others are passed over; ISO 639 codes",
                "# tags: [operations]   # free labels to filter by",
            ),
            label="files",
            the_rest=True,
            proxy=proxy_of_files,
        )


class Compose(SourceKind["ComposeSource"]):
    """Docker Compose projects."""

    name = "compose"
    stance = Stance.DECLARES
    projects = True

    @property
    def entry(self) -> type[ComposeSource]:
        from taboot_pipelines.connectors.compose import ComposeSource

        return ComposeSource

    def connect(self, entry: ComposeSource, access: Access) -> Connector:
        from taboot_pipelines.connectors.compose import ComposeConnector

        return ComposeConnector(entry, access)

    def extractors(self, interprets: bool) -> Sequence[ProjectExtractor]:
        from taboot_pipelines.extraction.tier_a.compose.extractor import ComposeExtractor

        return (ComposeExtractor(),)

    @property
    def beginning(self) -> Beginning:
        from taboot_pipelines.connectors.compose import DOCKERFILE_NAME
        from taboot_pipelines.sources.configuration import is_project, proxy_of_projects

        return Beginning(
            is_project,
            "Docker Compose projects.",
            ("# host: nas.lan        # the machine that they run on", '# schedule: "*/30 * * * *"'),
            label="compose",
            in_projects=True,
            proxy=proxy_of_projects,
            reads_too=lambda name: DOCKERFILE_NAME.fullmatch(name) is not None,
        )


class Swag(SourceKind["SwagSource"]):
    """The confs of an nginx reverse proxy."""

    name = "swag"
    stance = Stance.DECLARES

    @property
    def entry(self) -> type[SwagSource]:
        from taboot_pipelines.connectors.files import SwagSource

        return SwagSource

    def connect(self, entry: SwagSource, access: Access) -> Connector:
        from taboot_pipelines.connectors.files import FilesConnector

        # A `.conf.sample` is not in force; it is read where the entry asks for it.
        return FilesConnector(entry, access, default_include=("*.conf",))

    def extractors(self, interprets: bool) -> Sequence[ProjectExtractor]:
        from taboot_pipelines.extraction.tier_a.nginx.extractor import NginxExtractor

        return (NginxExtractor(),)

    @property
    def beginning(self) -> Beginning:
        from taboot_pipelines.sources.configuration import is_nginx, proxy_of_confs

        return Beginning(
            is_nginx,
            "nginx confs of the reverse proxy; a *.conf.sample is not in force and is not read.",
            ('# schedule: "*/30 * * * *"',),
            label="proxy",
            proxy=proxy_of_confs,
        )


class Web(SourceKind["WebSource"]):
    """Pages of the web."""

    name = "web"
    stance = Stance.DOCUMENTS
    sketch = (
        "id: docs",
        "type: web",
        "sitemaps: [https://docs.example.org/sitemap.xml]",
        "max_pages: 500",
        'schedule: "0 4 * * *"',
    )

    @property
    def entry(self) -> type[WebSource]:
        from taboot_pipelines.connectors.web import WebSource

        return WebSource

    def connect(self, entry: WebSource, access: Access) -> Connector:
        from taboot_pipelines.connectors.web import WebConnector

        return WebConnector(entry, access)


class Github(SourceKind["GithubSource"]):
    """Repositories of GitHub, with their issues, pull requests, discussions and releases."""

    name = "github"
    stance = Stance.DOCUMENTS
    sketch = ("id: code", "type: github", "repo: owner/name")

    @property
    def entry(self) -> type[GithubSource]:
        from taboot_pipelines.connectors.github.entry import GithubSource

        return GithubSource

    def connect(self, entry: GithubSource, access: Access) -> Connector:
        from taboot_pipelines.connectors.github.connector import connect

        return connect(entry, access)

    def stance_of(self, mime: str) -> Stance:
        return Stance.DISCUSSES if mime in GITHUB_THREADS else self.stance

    @property
    def forms(self) -> Mapping[str, Form]:
        from taboot_pipelines.documents.forms.github import GITHUB_FORMS

        return GITHUB_FORMS

    def extractors(self, interprets: bool) -> Sequence[ProjectExtractor]:
        from taboot_pipelines.extraction.tier_a.compose.extractor import ComposeExtractor
        from taboot_pipelines.extraction.tier_a.config_files import ConfigFiles
        from taboot_pipelines.extraction.tier_a.nginx.extractor import NginxExtractor, looks_like_nginx
        from taboot_pipelines.knowledge.project_units import RootedProjects

        compose = RootedProjects(ComposeExtractor(), _REPOSITORY)
        if interprets:
            return [compose, RootedProjects(ConfigFiles(), _REPOSITORY)]
        nginx = RootedProjects(
            NginxExtractor(),
            _REPOSITORY,
            project=lambda path: path.endswith(".conf"),
            # Other programs' files are called so too.
            reads=looks_like_nginx,
        )
        return [compose, nginx]


class Reddit(SourceKind["RedditSource"]):
    """Threads of Reddit."""

    name = "reddit"
    stance = Stance.DISCUSSES

    @property
    def entry(self) -> type[RedditSource]:
        from taboot_pipelines.connectors.reddit.entry import RedditSource

        return RedditSource

    def connect(self, entry: RedditSource, access: Access) -> Connector:
        from taboot_pipelines.connectors.reddit.connector import connect

        return connect(entry, access)

    @property
    def forms(self) -> Mapping[str, Form]:
        from taboot_pipelines.documents.forms.reddit import reddit
        from taboot_pipelines.model.records import REDDIT_THREAD

        return {REDDIT_THREAD: reddit}


class Youtube(SourceKind["YoutubeSource"]):
    """Videos, by what is said in them."""

    name = "youtube"
    stance = Stance.DISCUSSES

    @property
    def entry(self) -> type[YoutubeSource]:
        from taboot_pipelines.connectors.youtube.entry import YoutubeSource

        return YoutubeSource

    def connect(self, entry: YoutubeSource, access: Access) -> Connector:
        from taboot_pipelines.connectors.youtube.connector import connect

        return connect(entry, access)

    @property
    def forms(self) -> Mapping[str, Form]:
        from taboot_pipelines.documents.forms.video import video
        from taboot_pipelines.model.videos import VIDEO

        return {VIDEO: video}


class Gmail(SourceKind["GmailSource"]):
    """Mail: of Gmail, of a mailbox by IMAP, or kept in files."""

    name = "gmail"
    stance = Stance.DISCUSSES

    @property
    def entry(self) -> type[GmailSource]:
        from taboot_pipelines.connectors.gmail.entry import GmailSource

        return GmailSource

    def connect(self, entry: GmailSource, access: Access) -> Connector:
        if entry.path is not None:
            from taboot_pipelines.connectors.gmail.files import DEFAULT_INCLUDE, MailFolder, MailReader

            return MailFolder(entry, access, MailReader(access.attachments), default_include=DEFAULT_INCLUDE)
        if entry.imap is not None:
            from taboot_pipelines.connectors.gmail.imap import ImapMailbox

            return ImapMailbox(entry, entry.imap, access)
        from taboot_pipelines.connectors.gmail.api import GmailApi

        return GmailApi(entry, access)

    @property
    def forms(self) -> Mapping[str, Form]:
        from taboot_pipelines.documents.forms.mail import GMAIL, gmail

        return {GMAIL: gmail}


class Elasticsearch(SourceKind["ElasticsearchSource"]):
    """Logs and other hits of Elasticsearch or OpenSearch, and what the cluster is."""

    name = "elasticsearch"
    stance = Stance.RECORDS

    @property
    def entry(self) -> type[ElasticsearchSource]:
        from taboot_pipelines.connectors.elasticsearch.entry import ElasticsearchSource

        return ElasticsearchSource

    def connect(self, entry: ElasticsearchSource, access: Access) -> Connector:
        from taboot_pipelines.connectors.elasticsearch.connector import connect

        return connect(entry, access)

    @property
    def forms(self) -> Mapping[str, Form]:
        from taboot_pipelines.documents.forms.logs import logs
        from taboot_pipelines.model.records import LOGS

        return {LOGS: logs}

    def extractors(self, interprets: bool) -> Sequence[ProjectExtractor]:
        from taboot_pipelines.extraction.tier_a.elasticsearch import ElasticsearchExtractor

        return (ElasticsearchExtractor(),)


class Tailscale(SourceKind["TailscaleSource"]):
    """The devices of a tailnet, and who may reach whom."""

    name = "tailscale"
    stance = Stance.RECORDS

    @property
    def entry(self) -> type[TailscaleSource]:
        from taboot_pipelines.connectors.tailscale import TailscaleSource

        return TailscaleSource

    def connect(self, entry: TailscaleSource, access: Access) -> Connector:
        from taboot_pipelines.connectors.tailscale import tailnet_connector

        return tailnet_connector(entry, access)

    def extractors(self, interprets: bool) -> Sequence[ProjectExtractor]:
        from taboot_pipelines.extraction.tier_a.tailscale.extractor import TailscaleExtractor

        return (TailscaleExtractor(),)


class Unifi(SourceKind["UnifiSource"]):
    """The devices, networks and clients that a UniFi controller knows."""

    name = "unifi"
    stance = Stance.RECORDS

    @property
    def entry(self) -> type[UnifiSource]:
        from taboot_pipelines.connectors.unifi.connector import UnifiSource

        return UnifiSource

    def connect(self, entry: UnifiSource, access: Access) -> Connector:
        from taboot_pipelines.connectors.unifi.connector import unifi_connector

        return unifi_connector(entry, access)

    def extractors(self, interprets: bool) -> Sequence[ProjectExtractor]:
        from taboot_pipelines.extraction.tier_a.unifi.extractor import UnifiExtractor

        return (UnifiExtractor(),)


class Runtime(SourceKind["RuntimeSource"]):
    """What runs on a machine or in a cluster, by dumps or the API of its engine."""

    name = "runtime"
    stance = Stance.RUNS

    @property
    def entry(self) -> type[RuntimeSource]:
        from taboot_pipelines.connectors.runtime import RuntimeSource

        return RuntimeSource

    def connect(self, entry: RuntimeSource, access: Access) -> Connector:
        from taboot_pipelines.connectors.runtime import RuntimeReader, cluster_connector, engine_connector

        if entry.path is not None:
            from taboot_pipelines.connectors.recorded import RecordedFiles

            return RecordedFiles(entry, access, RuntimeReader(), default_include=("**",))
        return engine_connector(entry, access) if entry.socket else cluster_connector(entry, access)

    @property
    def beginning(self) -> Beginning:
        from taboot_pipelines.sources.configuration import is_dump

        return Beginning(
            is_dump,
            "Dumps of what runs, which `taboot drift` compares with what is declared.",
            ("# host: nas.lan        # the machine that they were made on",),
            label="runtime",
        )

    def extractors(self, interprets: bool) -> Sequence[ProjectExtractor]:
        from taboot_pipelines.extraction.tier_a.runtime.extractor import RuntimeExtractor

        return (RuntimeExtractor(),)


class AiSession(SourceKind["AiSessionSource"]):
    """Chat sessions with language models, in which people and models propose."""

    name = "ai_session"
    stance = Stance.PROPOSES

    @property
    def entry(self) -> type[AiSessionSource]:
        from taboot_pipelines.connectors.ai_session import AiSessionSource

        return AiSessionSource

    def connect(self, entry: AiSessionSource, access: Access) -> Connector:
        from taboot_pipelines.connectors.ai_session import AiSessionConnector

        return AiSessionConnector(entry, access)

    @property
    def forms(self) -> Mapping[str, Form]:
        from taboot_pipelines.documents.forms.chat import chat
        from taboot_pipelines.model.chats import CHAT, CHAT_WITH_THINKING

        return {CHAT: chat, CHAT_WITH_THINKING: chat}


class Uploads(SourceKind["UploadsSource"]):
    """Documents that people uploaded."""

    name = "uploads"
    stance = Stance.DOCUMENTS

    @property
    def entry(self) -> type[UploadsSource]:
        from taboot_pipelines.connectors.uploads import UploadsSource

        return UploadsSource

    def connect(self, entry: UploadsSource, access: Access) -> Connector:
        from taboot_pipelines.connectors.uploads import UploadsConnector

        return UploadsConnector(entry, access)


BUILT_IN: tuple[SourceKind[Any], ...] = (
    Files(),
    Compose(),
    Swag(),
    Web(),
    Github(),
    Reddit(),
    Youtube(),
    Gmail(),
    Elasticsearch(),
    Tailscale(),
    Unifi(),
    Runtime(),
    AiSession(),
    Uploads(),
)
