"""Formats whose document is Markdown that is rendered from their bytes: resources of APIs, mail, captions.

One module per format. It has a function of the type :data:`Form`, makes its text with a ``Writer``, which
keeps where each piece came from (rule ``offsets-carried``), and is named in :data:`FORMS` by its media type.
A form knows no path but the one in messages, asks no network and keeps nothing between two documents.

Resources are what a connector stores of an API's answers: JSON under a media type of our own,
``application/vnd.taboot.<form>+json``.
"""

from __future__ import annotations

from collections.abc import Mapping

from taboot_pipelines.documents.forms import docx, notebook, pdf
from taboot_pipelines.documents.forms.captions import captions
from taboot_pipelines.documents.forms.chat import chat
from taboot_pipelines.documents.forms.github import GITHUB_FORMS
from taboot_pipelines.documents.forms.logs import logs
from taboot_pipelines.documents.forms.mail import GMAIL, MAIL, gmail, mail
from taboot_pipelines.documents.forms.mail_quotes import QUOTED
from taboot_pipelines.documents.forms.reddit import reddit
from taboot_pipelines.documents.forms.video import video
from taboot_pipelines.documents.forms.writing import Form, Formed, Given
from taboot_pipelines.documents.mime import DOCX, NOTEBOOK, PDF
from taboot_pipelines.model import videos
from taboot_pipelines.model.chats import CHAT, CHAT_WITH_THINKING
from taboot_pipelines.model.resource_types import LOGS, REDDIT_THREAD

__all__ = ["FORMS", "Form", "Formed", "Given", "own_text"]

#: By media type; ``documents.mime`` names those that do not begin with its ``RESOURCE``.
FORMS: Mapping[str, Form] = {
    DOCX: docx.render,
    NOTEBOOK: notebook.render,
    PDF: pdf.render,
    "text/vtt": captions,
    "application/x-subrip": captions,
    "text/x-sbv": captions,
    videos.TRANSCRIPT_JSON: captions,
    videos.TRANSCRIPT_XML: captions,
    videos.VIDEO: video,
    MAIL: mail,
    GMAIL: gmail,
    **GITHUB_FORMS,
    CHAT: chat,
    CHAT_WITH_THINKING: chat,
    LOGS: logs,
    REDDIT_THREAD: reddit,
}


def own_text(text: str, mime: str) -> str:
    """The beginning of a document that is the writer's own: without the last section of a mail, in which it
    repeats those before it."""
    if mime not in (MAIL, GMAIL):
        return text
    at = text.rfind(f"\n{QUOTED}\n")
    return text if at < 0 else text[: at + 1]
