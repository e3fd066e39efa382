"""Media types of what connectors store of an API's answers, by which ``documents.forms`` knows its forms."""

from __future__ import annotations

#: A group of hits of Elasticsearch, or one hit.
LOGS = "application/vnd.taboot.logs+json"
#: A thread of Reddit: its post and its comments.
REDDIT_THREAD = "application/vnd.taboot.reddit-thread+json"
