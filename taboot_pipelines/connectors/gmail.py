"""Mail (type ``gmail``): the Gmail API, any server by IMAP, or files of mail.

What all three give is one item per message and one for each text that is attached to it, whose path begins
with the message's: ``<message>#<number>-<name>``.
"""

from __future__ import annotations

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.gmail_api import GmailApi
from taboot_pipelines.connectors.gmail_entry import GmailSource
from taboot_pipelines.connectors.gmail_files import DEFAULT_INCLUDE, MailFolder, MailReader
from taboot_pipelines.connectors.gmail_imap import ImapMailbox
from taboot_pipelines.connectors.protocol import Connector


def connect(entry: GmailSource, access: Access) -> Connector:
    """The connector of an entry, by where its mail is."""
    if entry.path is not None:
        return MailFolder(entry, access, MailReader(access.attachments), default_include=DEFAULT_INCLUDE)
    if entry.imap is not None:
        return ImapMailbox(entry, entry.imap, access)
    return GmailApi(entry, access)
