"""What an entry of type ``reddit`` holds."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from taboot_pipelines.connectors.access import SecretReference, VariableName
from taboot_pipelines.connectors.entries import BoundedSource, RecordedSource, unique
from taboot_pipelines.connectors.reddit.client import MAX_LISTING

_SITE = r"(?:https?://)?(?:[a-z]+\.)?reddit\.com"
_SUBREDDIT = re.compile(rf"(?:(?:{_SITE})?/?r/)?([A-Za-z0-9_]{{2,25}})(?:/|\?.*)?")
_USER = re.compile(rf"(?:(?:{_SITE})?/?(?:u|user)/)?([A-Za-z0-9_-]{{2,25}})(?:/|\?.*)?")
_THREAD = re.compile(
    r"(?:t3_)?([0-9a-z]{1,13})|(?:https?://)?redd\.it/([0-9a-z]{1,13})/?(?:[?#].*)?"
    rf"|{_SITE}/(?:(?:r|user|u)/[^/]+/)?(?:comments|gallery)/([0-9a-z]{{1,13}})(?:[/?#].*)?"
)
_SHARED = re.compile(rf"{_SITE}/(?:r|u|user)/[^/]+/s/.*")
_LISTING = re.compile(r"/?[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){0,7}(?:\.json)?/?(?:\?[A-Za-z0-9_.~%=&+-]*)?")


def _subreddit(value: str) -> str:
    match = _SUBREDDIT.fullmatch(value.strip())
    if match is None:
        raise ValueError("is no name of a subreddit; several at once, or another order, stand in `listings`")
    return match[1]


def _user(value: str) -> str:
    match = _USER.fullmatch(value.strip())
    if match is None:
        raise ValueError("is no name of a user")
    return match[1]


def _thread(value: str) -> str:
    match = _THREAD.fullmatch(value.strip())
    if match is None and _SHARED.fullmatch(value.strip()):
        raise ValueError("is a link made for sharing; open it, and take the URL that it leads to")
    if match is None:
        raise ValueError("is neither the id nor the URL of a thread")
    return match[1] or match[2] or match[3]


def _listing(value: str) -> str:
    path = re.sub(rf"\A{_SITE}(?=/)", "", value.strip())
    if not _LISTING.fullmatch(path):
        raise ValueError("is not the path of a listing, such as `r/homelab/top?t=month`")
    path, mark, query = path.partition("?")
    return path.rstrip("/").removesuffix(".json") + mark + query


SubredditName = Annotated[str, StringConstraints(max_length=300), AfterValidator(_subreddit)]
UserName = Annotated[str, StringConstraints(max_length=300), AfterValidator(_user)]
SearchText = Annotated[str, StringConstraints(min_length=1, max_length=512)]
ThreadId = Annotated[str, AfterValidator(_thread)]
ListingPath = Annotated[str, StringConstraints(max_length=300), AfterValidator(_listing)]


class RedditSource(RecordedSource, BoundedSource):
    """Threads of Reddit, each with its comments: asked of its API, or recorded answers of it in the directory
    `path`.
    """

    type: Literal["reddit"]
    subreddits: Annotated[list[SubredditName], AfterValidator(unique)] = Field(
        default_factory=list, description="Subreddits, by name or URL."
    )
    users: Annotated[list[UserName], AfterValidator(unique)] = Field(
        default_factory=list, description="Users, by name or URL: the threads that they began."
    )
    searches: Annotated[list[SearchText], AfterValidator(unique)] = Field(
        default_factory=list,
        description="What is searched for, as Reddit has it: `subreddit:homelab backup`.",
    )
    listings: Annotated[list[ListingPath], AfterValidator(unique)] = Field(
        default_factory=list,
        description="Further listings by their paths, such as `r/homelab+selfhosted/top?t=month`.",
    )
    threads: Annotated[list[ThreadId], AfterValidator(unique)] = Field(
        default_factory=list, description="Single threads, by id or URL."
    )
    sort: Literal["new", "hot", "top", "rising", "controversial"] = Field(
        "new", description="By which order subreddits and users are listed."
    )
    max_listing: Annotated[int, Field(ge=1, le=MAX_LISTING)] = Field(
        MAX_LISTING, description="Threads of one listing; Reddit gives no more than 1,000."
    )
    max_more: Annotated[int, Field(ge=0, le=1000)] = Field(
        20, description="Requests for comments of one thread that Reddit leaves out of its first answer."
    )
    recheck_hours: Annotated[float, Field(ge=0, le=8760)] = Field(
        24.0,
        description="After so long a thread's comments are read again though its listing shows no change.",
    )
    client_id: SecretReference | None = Field(
        None, description="`${NAME}`: the environment variable with the application's id."
    )
    client_id_env: VariableName | None = Field(
        None, description="The same by the variable's name alone, such as `REDDIT_CLIENT_ID`."
    )
    client_secret: SecretReference | None = Field(
        None, description="`${NAME}`: the environment variable with the application's secret."
    )
    client_secret_env: VariableName | None = Field(
        None, description="The same by the variable's name alone, such as `REDDIT_CLIENT_SECRET`."
    )
    user_agent: Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]{8,200}$")] = Field(
        "linux:taboot-pipelines:0.1 (knowledge base)",
        description="What it calls itself; Reddit wants the application and its owner named here.",
    )
    base_url: Annotated[str, StringConstraints(min_length=8, max_length=2048)] = Field(
        "https://oauth.reddit.com", description="The API's address."
    )
    token_url: Annotated[str, StringConstraints(min_length=8, max_length=2048)] = Field(
        "https://www.reddit.com/api/v1/access_token", description="Where tokens are given."
    )

    @model_validator(mode="after")
    def _is_whole(self) -> RedditSource:
        asked = self.subreddits or self.users or self.searches or self.listings or self.threads
        if (self.path is None) == (not asked):
            raise ValueError(
                "needs either `path` or some of `subreddits`, `users`, `searches`, `listings`, `threads`"
            )
        named = (self.client_id or self.client_id_env) and (self.client_secret or self.client_secret_env)
        if asked and not named:
            raise ValueError(
                "needs `client_id_env` and `client_secret_env` (or `client_id`, `client_secret`)"
            )
        return self
