"""Recorded answers of Reddit's API: threads, listings, and cassettes (VCR, Betamax) that hold both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from taboot_pipelines.connectors.api import canonical
from taboot_pipelines.connectors.recorded import Part, RecordedFile
from taboot_pipelines.connectors.reddit_api import thread_of
from taboot_pipelines.connectors.reddit_threads import Thread, is_gone, is_listing, original, posts_of, url_of
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.resource_types import REDDIT_THREAD

INCLUDE = ("*.json",)


class RedditReader:
    """The threads that a recorded file holds, each once."""

    version = "1"

    def __call__(self, file: RecordedFile) -> Iterator[Part]:
        answers = list(_answers(_loaded(file)))
        threads: dict[str, Thread] = {}
        gone = False
        for answer in answers:
            for thread in _threads(answer):
                if is_gone(thread.post):
                    gone = True
                    continue
                known = threads.get(thread.post["id"])
                if known is None or len(known.comments) < len(thread.comments):
                    threads[thread.post["id"]] = thread
        if not threads and gone:
            raise TabootError("E_EMPTY", f"{file.path} holds only threads that were deleted.")
        if not threads:
            raise TabootError("E_MIME", f"{file.path} holds no thread of Reddit.")
        for id_, thread in sorted(threads.items()):
            url = url_of(thread.post)
            yield Part(canonical(thread.resource()), id_, mime=REDDIT_THREAD, charset="utf-8", url=url)


def _loaded(file: RecordedFile) -> Any:
    data = file.read()
    if not data.strip():
        raise TabootError("E_EMPTY", f"{file.path} is empty.")
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise TabootError("E_MIME", f"{file.path} is no JSON.") from None
    except (ValueError, RecursionError):
        raise TabootError("E_PARSE", f"The JSON of {file.path} cannot be read.") from None


def _answers(said: Any) -> Iterator[Any]:
    """The answers of a file: itself, or the bodies that a cassette recorded."""
    interactions = None
    if isinstance(said, dict):
        interactions = said.get("interactions", said.get("http_interactions"))
    if not isinstance(interactions, list):
        yield said
        return
    for interaction in interactions:
        response = interaction.get("response") if isinstance(interaction, dict) else None
        body = response.get("body") if isinstance(response, dict) else None
        text = body.get("string") if isinstance(body, dict) else body
        if isinstance(text, str):
            try:
                yield json.loads(text)
            except (ValueError, RecursionError):
                continue


def _threads(answer: Any) -> Iterator[Thread]:
    thread = thread_of(answer)
    if thread is not None:
        yield thread
    elif is_listing(answer):
        for post in posts_of(answer):
            shown = original(post)
            if shown is None:
                yield Thread(post)
            elif shown[1] is not None:
                yield Thread(shown[1])
