"""Opens a source of mail by where its mail is."""

from __future__ import annotations

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.gmail.api import GmailApi
from taboot_pipelines.connectors.gmail.entry import GmailSource
from taboot_pipelines.connectors.gmail.files import DEFAULT_INCLUDE, MailFolder, MailReader
from taboot_pipelines.connectors.gmail.imap import ImapMailbox
from taboot_pipelines.connectors.protocol import Connector


def connect(entry: GmailSource, access: Access) -> Connector:
    """The connector of an entry, by where its mail is."""
    if entry.path is not None:
        return MailFolder(entry, access, MailReader(access.attachments), default_include=DEFAULT_INCLUDE)
    if entry.imap is not None:
        return ImapMailbox(entry, entry.imap, access)
    return GmailApi(entry, access)
