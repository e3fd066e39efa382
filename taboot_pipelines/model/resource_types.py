"""What connectors and ``documents.forms`` both know of resources: the media types under which an API's
answers are stored, and words that mean that something is not there.
"""

from __future__ import annotations

#: A group of hits of Elasticsearch, or one hit.
LOGS = "application/vnd.taboot.logs+json"
#: A thread of Reddit: its post and its comments.
REDDIT_THREAD = "application/vnd.taboot.reddit-thread+json"
#: What Reddit puts in the place of a text that its author, or a moderator, took away.
REDDIT_TAKEN_AWAY = frozenset({"[deleted]", "[removed]", "[ Removed by Reddit ]", "[ Removed by reddit ]"})
#: What the media types of GitHub's resources begin with.
GITHUB = "application/vnd.taboot.github-"
#: What people said there at a time, unlike what a repository says of itself.
GITHUB_THREADS = frozenset(f"{GITHUB}{what}+json" for what in ("issue", "pull", "release", "discussion"))
