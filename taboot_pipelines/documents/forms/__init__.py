"""Formats whose document is Markdown that is rendered from their bytes: resources of APIs, mail, captions.

One module per format. It has a function of the type :data:`Form` and makes its text with a ``Writer``, which
keeps where each piece came from (rule ``offsets-carried``). What any source may hold is named in
:data:`FORMS` by its media type; the form of a resource is named by the source type that stores it
(``sources.SourceKind``). A form knows no path but the one in messages, asks no network and keeps nothing
between two documents.

Resources are what a connector stores of an API's answers: JSON under a media type of our own,
``application/vnd.taboot.<form>+json``.
"""

from __future__ import annotations

from collections.abc import Mapping

from taboot_pipelines.documents.forms import docx, notebook, pdf
from taboot_pipelines.documents.forms.captions import captions
from taboot_pipelines.documents.forms.mail import GMAIL, MAIL, mail
from taboot_pipelines.documents.forms.mail_quotes import QUOTED
from taboot_pipelines.documents.forms.writing import Form, Formed, Given
from taboot_pipelines.documents.mime import DOCX, NOTEBOOK, PDF
from taboot_pipelines.model import videos

__all__ = ["FORMS", "Form", "Formed", "Given", "own_text"]

#: Those of formats that any source may hold, by media type; ``documents.mime`` names those that do not begin
#: with its ``RESOURCE``.
FORMS: Mapping[str, Form] = {
    DOCX: docx.render,
    NOTEBOOK: notebook.render,
    PDF: pdf.render,
    "text/vtt": captions,
    "application/x-subrip": captions,
    "text/x-sbv": captions,
    videos.TRANSCRIPT_JSON: captions,
    videos.TRANSCRIPT_XML: captions,
    MAIL: mail,
}


def own_text(text: str, mime: str) -> str:
    """The beginning of a document that is the writer's own: without the last section of a mail, in which it
    repeats those before it."""
    if mime not in (MAIL, GMAIL):
        return text
    at = text.rfind(f"\n{QUOTED}\n")
    return text if at < 0 else text[: at + 1]
