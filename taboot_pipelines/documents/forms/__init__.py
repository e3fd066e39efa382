"""Formats whose document is Markdown that is rendered from their bytes: resources of APIs, mail, captions.

One module per format. It has a function of the type :data:`Form`, makes its text with a ``Writer``, which
keeps where each piece came from (rule ``offsets-carried``), and is named in :data:`FORMS` by its media type.
A form knows no path but the one in messages, asks no network and keeps nothing between two documents.

Resources are what a connector stores of an API's answers: JSON under a media type of our own,
``application/vnd.taboot.<form>+json``.
"""

from __future__ import annotations

from collections.abc import Mapping

from taboot_pipelines.documents.forms.form import Form, Formed, Given
from taboot_pipelines.documents.forms.logs import logs
from taboot_pipelines.documents.forms.reddit import reddit
from taboot_pipelines.model.resource_types import LOGS, REDDIT_THREAD

__all__ = ["FORMS", "Form", "Formed", "Given"]

#: By media type; ``documents.mime`` names those that do not begin with its ``RESOURCE``.
FORMS: Mapping[str, Form] = {LOGS: logs, REDDIT_THREAD: reddit}
