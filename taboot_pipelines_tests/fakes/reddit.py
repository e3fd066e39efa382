"""A fake of Reddit: its token endpoint and the parts of its API that the connector asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from taboot_pipelines_tests.fakes.answering import Request, Response, answering

#: Reddit nests so many answers, and leaves the rest to "continue this thread".
_NESTED = 4


class FakeReddit:
    """``posts`` and ``comments`` by id, as the API tells them. ``inline``: comments that the first answer
    about a thread has. ``token_uses``: requests after which a token is refused."""

    def __init__(self) -> None:
        self.posts: dict[str, dict[str, Any]] = {}
        self.comments: dict[str, dict[str, Any]] = {}
        self.inline = 1000
        self.token_uses: int | None = None
        self.headers: dict[str, str] = {}
        self.fail: dict[str, Response] = {}
        self.asked: Counter[str] = Counter()
        self.requests: list[Request] = []
        #: Recorded bodies by path, that are answered with as they are.
        self.recorded: dict[str, Any] = {}
        self._tokens: Counter[str] = Counter()

    @contextmanager
    def serve(self) -> Iterator[str]:
        with answering(self._answer) as base:
            yield base

    def post(self, id_: str, **changed: Any) -> dict[str, Any]:
        """Put a post there, or change one."""
        made = {
            "id": id_,
            "name": f"t3_{id_}",
            "subreddit": "homelab",
            "title": f"Title {id_}",
            "selftext": f"Text of {id_}",
            "author": "ann",
            "created_utc": 1_700_000_000.0 + int(id_, 36),
            "edited": False,
            "is_self": True,
            "score": 1,
            "permalink": f"/r/homelab/comments/{id_}/title/",
        }
        self.posts[id_] = {**self.posts.get(id_, made), **changed}
        return self.posts[id_]

    def comment(self, id_: str, parent: str, post: str, **changed: Any) -> dict[str, Any]:
        """Put a comment there, or change one. ``parent``: a fullname."""
        made = {
            "id": id_,
            "name": f"t1_{id_}",
            "parent_id": parent,
            "link_id": f"t3_{post}",
            "author": "bob",
            "body": f"Body of {id_}",
            "created_utc": 1_700_000_000.0 + int(id_, 36),
            "edited": False,
            "score": 1,
        }
        self.comments[id_] = {**self.comments.get(id_, made), **changed}
        return self.comments[id_]

    def _answer(self, asked: Request) -> Response:
        self.requests.append(asked)
        path = asked.path.rstrip("/")
        self.asked[path] += 1
        if path in self.fail:
            return self.fail[path]
        if path == "/api/v1/access_token":
            assert asked.method == "POST" and asked.body == {"grant_type": "client_credentials"}
            token = f"token-{len(self._tokens)}"
            self._tokens[token] = 0
            return Response(body={"access_token": token, "token_type": "bearer", "expires_in": 3600})
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        self._tokens[token] += 1
        if token == "" or (self.token_uses is not None and self._tokens[token] > self.token_uses):
            return Response(401, {"message": "Unauthorized", "error": 401})
        assert asked.query.get("raw_json") == "1", "texts must not be escaped"
        return Response(body=self._data(path, asked.query), headers=self.headers)

    def _data(self, path: str, query: Any) -> Any:
        if path in self.recorded:
            return self.recorded[path]
        if path == "/api/info":
            ids = [name.removeprefix("t3_") for name in query["id"].split(",")]
            assert len(ids) <= 100
            return listing([self._told(self.posts[id_]) for id_ in ids if id_ in self.posts])
        if path == "/api/morechildren":
            assert query["api_type"] == "json"
            ids = query["children"].split(",")
            assert len(ids) <= 100
            things = [
                {"kind": "t1", "data": {**self.comments[id_], "replies": ""}}
                for id_ in ids
                if id_ in self.comments
            ]
            return {"json": {"errors": [], "data": {"things": things}}}
        if path.startswith("/comments/"):
            parts = path.split("/")
            return self._thread(parts[2], parts[4] if len(parts) > 4 else None)
        after, limit = query.get("after"), int(query["limit"])
        posts = sorted(self.posts.values(), key=lambda post: -post["created_utc"])
        posts = [p for p in posts if not p.get("removed_by_category") and not p.get("off")]
        if after is not None:
            names = [p["name"] for p in posts]
            posts = posts[names.index(after) + 1 :] if after in names else []
        page = posts[:limit]
        return listing([self._told(p) for p in page], page[-1]["name"] if len(posts) > limit else None)

    def _told(self, post: dict[str, Any]) -> dict[str, Any]:
        number = sum(c["link_id"] == post["name"] for c in self.comments.values())
        return {"kind": "t3", "data": {**post, "num_comments": number, "ups": len(self.requests)}}

    def _thread(self, id_: str, under: str | None) -> Any:
        if id_ not in self.posts:
            return [listing([]), listing([])]
        left = [self.inline]

        def answers(parent: str, depth: int) -> list[Any]:
            found = [c for c in self.comments.values() if c["parent_id"] == parent]
            if depth >= _NESTED and found:
                return [
                    {"kind": "more", "data": {"count": 0, "id": "_", "parent_id": parent, "children": []}}
                ]
            things: list[Any] = []
            more: list[str] = []
            for comment in found:
                if left[0] <= 0:
                    more += [comment["id"], *self._below(comment["id"])]
                    continue
                left[0] -= 1
                below = answers(comment["name"], depth + 1)
                replies = listing(below) if below else ""
                things.append({"kind": "t1", "data": {**comment, "score": left[0], "replies": replies}})
            if more:
                data = {"count": len(more), "id": more[0], "parent_id": parent, "children": more}
                things.append({"kind": "more", "data": data})
            return things

        if under is None:
            return [listing([self._told(self.posts[id_])]), listing(answers(f"t3_{id_}", 0))]
        comment = self.comments[under]
        thing = {"kind": "t1", "data": {**comment, "replies": listing(answers(comment["name"], 1))}}
        return [listing([self._told(self.posts[id_])]), listing([thing])]

    def _below(self, id_: str) -> list[str]:
        found = [c["id"] for c in self.comments.values() if c["parent_id"] == f"t1_{id_}"]
        return [x for one in found for x in (one, *self._below(one))]


def listing(children: list[Any], after: str | None = None) -> dict[str, Any]:
    return {
        "kind": "Listing",
        "data": {"modhash": None, "children": children, "after": after, "before": None},
    }
