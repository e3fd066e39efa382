"""``/api``: what it answers is what ``KnowledgeBase`` says, what it refuses is a problem, and its description
is valid and true."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate
from starlette.testclient import TestClient

from taboot_pipelines.browse import api
from taboot_pipelines.browse.app import make_app
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import LlmSettings
from taboot_pipelines_tests.fakes.openai import FakeOpenAi
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

TOKEN = "a-token-of-this-test-alone"
COMPOSE = (
    "services:\n  web:\n    image: nginx:1.27\n    ports: ['8080:80']\n    depends_on: [cache]\n"
    "  cache:\n    image: redis:7\n"
)
RUNBOOK = "# CacheDown\n\nThe service cache is down: look at the lantern in the hall, then restart it.\n"
ALERT = {
    "version": "4",
    "receiver": "taboot",
    "alerts": [
        {
            "status": "firing",
            "labels": {"alertname": "CacheDown", "job": "cache"},
            "annotations": {"summary": "The cache is down"},
            "startsAt": "2026-01-31T00:00:00Z",
        },
        {"status": "resolved", "labels": {"alertname": "Other"}, "annotations": {}},
    ],
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with FakeTei() as tei:
        made = World(tmp_path_factory.mktemp("house"), tei.url)
        (made.source("stacks", "compose", host="hearth.lan") / "compose.yaml").write_text(COMPOSE)
        (made.source("runbooks") / "CacheDown.md").write_text(RUNBOOK)
        made.ingest()
        yield made
        made.workspace.close()


@pytest.fixture(scope="module")
def kb(world: World) -> KnowledgeBase:
    return KnowledgeBase.open(settings=world.settings(world.home), read_only=True)


@pytest.fixture(scope="module")
def client(kb: KnowledgeBase) -> TestClient:
    return asking(kb)


def asking(kb: KnowledgeBase) -> TestClient:
    headers = {"authorization": f"Bearer {TOKEN}"}
    return TestClient(make_app(kb, TOKEN, "once", 80), base_url="http://localhost", headers=headers)


def dumped(result: Any) -> Any:
    return json.loads(result.model_dump_json())


def asked(kb: KnowledgeBase) -> dict[str, tuple[str, dict[str, Any]]]:
    """A request for each endpoint that is read, by its path in the description."""
    doc_id = kb.documents().column("doc_id")[0].as_py()
    edge_id = kb.edges().column("edge_id")[0].as_py()
    return {
        "/api/search": ("/api/search", {"q": "lantern", "source": ["runbooks", "stacks"], "limit": 3}),
        "/api/ask": ("/api/ask", {"q": "What does web depend on?"}),
        "/api/queries": ("/api/queries", {}),
        "/api/queries/{name}": ("/api/queries/dependents", {"service": "cache"}),
        "/api/graph/neighbors": ("/api/graph/neighbors", {"name": "web", "type": "BINDS"}),
        "/api/graph/path": ("/api/graph/path", {"start": "web", "end": "cache"}),
        "/api/explain": ("/api/explain", {"id": edge_id}),
        "/api/documents": ("/api/documents", {"limit": 1}),
        "/api/documents/{document}": (f"/api/documents/{doc_id}", {}),
        "/api/documents/{document}/text": (f"/api/documents/{doc_id}/text", {"start": 2, "length": 5}),
        "/api/documents/{document}/links": (f"/api/documents/{doc_id}/links", {}),
        "/api/collections": ("/api/collections", {}),
        "/api/drift": ("/api/drift", {}),
        "/api/changes": ("/api/changes", {"since": "1d"}),
        "/api/status": ("/api/status", {}),
    }


def test_the_description_is_valid_and_every_answer_is_as_it_says(
    kb: KnowledgeBase, client: TestClient
) -> None:
    described = client.get("/api/openapi.json").json()
    validate(described)
    assert described["openapi"].startswith("3.1")
    requests = asked(kb)
    assert {p for p, o in described["paths"].items() if "get" in o} == requests.keys()
    for path, (url, parameters) in requests.items():
        operation = described["paths"][path]["get"]
        answer = client.get(url, params=parameters)
        assert answer.status_code == 200, (path, answer.text)
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        checked(described, schema, answer.json())
        known = {p["name"]: p for p in operation["parameters"]}
        assert {n for n, p in known.items() if p["in"] == "path"} == {
            part[1:-1] for part in path.split("/") if part.startswith("{")
        }
        assert parameters.keys() <= known.keys() | {"service"}
        wrong = client.get(url, params={**parameters, "limit": "many", "nonsense": "1"})
        assert wrong.status_code == 400, path
        checked(described, {"$ref": "#/components/schemas/Problem"}, wrong.json())
    schema = described["paths"]["/api/alert"]["post"]["responses"]["200"]["content"]["application/json"][
        "schema"
    ]
    checked(described, schema, client.post("/api/alert", json=ALERT).json())


def checked(described: dict[str, Any], schema: dict[str, Any], value: Any) -> None:
    whole = {**schema, "components": described["components"]}
    errors = [e.message for e in OAS31Validator(whole).iter_errors(value)]
    assert not errors, errors[:3]


def test_it_says_what_the_knowledge_base_says(kb: KnowledgeBase, client: TestClient) -> None:
    def got(url: str, **parameters: Any) -> Any:
        return client.get(url, params=parameters).json()

    assert got("/api/search", q="lantern", limit=3) == dumped(kb.search("lantern", 3))
    said = got("/api/ask", q="What does web depend on?")
    wanted = dumped(kb.answer("What does web depend on?"))
    assert {**said, "answer_id": ""} == {**wanted, "answer_id": ""} and "cache" in said["text"]
    assert got("/api/queries") == dumped(kb.queries())
    assert got("/api/queries/dependents", service="cache") == dumped(kb.query("dependents", service="cache"))
    assert got("/api/graph/neighbors", name="web", hops=2) == dumped(kb.neighbors("web", 2))
    assert got("/api/graph/path", start="web", end="cache") == dumped(kb.path("web", "cache"))
    assert got("/api/drift") == dumped(kb.drift())
    assert got("/api/status")["publication"] == kb.manifest.version
    first = got("/api/documents", limit=1)
    rest = got("/api/documents", limit=1, cursor=first["next_cursor"])
    ids = [d["doc_id"] for page in (first, rest) for d in page["documents"]]
    assert ids == kb.documents().column("doc_id").to_pylist() and rest["next_cursor"] is None
    (runbook,) = got("/api/documents", source="runbooks")["documents"]
    text = got(f"/api/documents/{runbook['doc_id']}/text", start=2, length=9)
    assert (text["text"], text["end"], text["length"]) == ("CacheDown", 11, len(RUNBOOK.rstrip("\n")))
    assert got("/api/search", q="lantern", as_of="9999-01-01")["hits"]
    assert got("/api/search", q="lantern", as_of="2001-01-01")["code"] == "E_MANIFEST_GONE"


def test_an_alert_leads_to_its_runbook(client: TestClient) -> None:
    answer = client.post("/api/alert", json=ALERT)
    (guide,) = answer.json()["alerts"]
    assert guide["documents"][0]["path"] == "CacheDown.md" and guide["documents"][0]["why"] == "name"
    assert [t["name"] for t in guide["things"]] == ["cache"]
    assert [(g["how"], [i["name"] for i in g["items"]]) for g in guide["dependents"]] == [
        ("only starts after it", ["web"])
    ]
    assert guide["changes"] == []  # What a first ingest brought is no change.


def test_an_answer_of_a_model_comes_in_pieces(world: World) -> None:
    def says(body: dict[str, Any]) -> str:
        lines = body["messages"][-1]["content"].split("\n")
        shown = [json.loads(line) for line in lines if line.startswith("{")]
        number = next(x["passage"] for x in shown if "lantern" in x.get("text", ""))
        return f"Look at the lantern in the hall [{number}]. Then restart it [{number}]."

    with FakeOpenAi() as server:
        server.react = says
        llm = LlmSettings(url=server.url, model=server.models[0])
        settings = world.settings(world.home).model_copy(update={"llm": llm})
        client = asking(KnowledgeBase.open(settings=settings, read_only=True))
        headers = {"accept": "text/event-stream"}
        answer = client.get(
            "/api/ask", params={"q": "What do I look at when cache is down?"}, headers=headers
        )
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [
            dict(line.split(": ", 1) for line in e.splitlines()) for e in answer.text.split("\n\n") if e
        ]
        assert [e["event"] for e in events][-1] == "answer" and len(events) >= 2
        whole = json.loads(events[-1]["data"])
        assert "".join(json.loads(e["data"])["text"] for e in events[:-1]) == whole["text"]
        wrong = client.get("/api/ask", params={"q": " "}, headers=headers)
        assert wrong.status_code == 400 and wrong.json()["code"] == "E_QUERY"


def test_nobody_gets_in_without_the_token_or_from_elsewhere(kb: KnowledgeBase) -> None:
    client = TestClient(make_app(kb, TOKEN, "once", 80), base_url="http://localhost")
    bearer = {"authorization": f"Bearer {TOKEN}"}
    for url in ("/api/status", "/api/openapi.json", "/api/nothing"):
        for wrong in ({}, {"authorization": TOKEN}, {"authorization": "Bearer once"}):
            answer = client.get(url, headers=wrong)
            assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
            problem(answer, "E_CREDENTIALS")
    for origin in ("https://evil.example", "http://localhost:9999", "null"):
        answer = client.get("/api/status", headers={**bearer, "origin": origin})
        assert answer.status_code == 403
        problem(answer, "E_FORBIDDEN")
    assert client.get("/api/status", headers={**bearer, "host": "evil.example"}).status_code == 421
    answer = client.get("/api/status", headers={**bearer, "origin": "http://localhost"})
    assert answer.status_code == 200 and not [h for h in answer.headers if h.startswith("access-control")]
    # A page of ours reads with its cookie, and no more.
    assert client.get(f"/?token={TOKEN}").status_code == 200
    assert client.get("/api/status").status_code == 200
    assert client.post("/api/alert", json=ALERT).status_code == 401
    assert client.post("/api/alert", json=ALERT, headers=bearer).status_code == 200


def problem(answer: Any, code: str) -> None:
    said = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert said["code"] == code and said["status"] == answer.status_code and said["remedy"], said
    assert said["type"] == "about:blank" and "Traceback" not in answer.text


@pytest.mark.parametrize(
    ("url", "status", "code", "names"),
    [
        ("/api/search", 400, "E_QUERY", "q"),
        ("/api/search?q=a&limit=1000", 400, "E_QUERY", "limit"),
        ("/api/search?q=a&nonsense=1", 400, "E_QUERY", "nonsense"),
        ("/api/search?q=a&q=b", 400, "E_QUERY", "q"),
        ("/api/search?q=a&mode=best", 400, "E_QUERY", "mode"),
        ("/api/search?q=a&cursor=x", 410, "E_CURSOR", ""),
        ("/api/search?q=a&date_from=x", 400, "E_QUERY", "date_from"),
        ("/api/queries/nothing", 400, "E_QUERY", "nothing"),
        ("/api/queries/dependents", 400, "E_QUERY", "service"),
        ("/api/queries/dependents?service=nobody", 404, "E_NOT_FOUND", "nobody"),
        ("/api/graph/neighbors?name=nobody", 404, "E_NOT_FOUND", "nobody"),
        ("/api/documents/nothing", 404, "E_NOT_FOUND", "nothing"),
        ("/api/explain?id=nothing", 404, "E_EDGE_UNKNOWN", ""),
        ("/api/changes?since=whenever", 400, "E_QUERY", "since"),
        ("/api/nothing", 404, "E_NOT_FOUND", ""),
        ("/api", 404, "E_NOT_FOUND", ""),
    ],
)
def test_what_is_wrong_is_named(client: TestClient, url: str, status: int, code: str, names: str) -> None:
    answer = client.get(url)
    assert answer.status_code == status, answer.text
    problem(answer, code)
    assert names in answer.json()["detail"]


def test_bodies_methods_time_and_defects(
    client: TestClient, kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = client.post("/api/alert", content=b" " * (api.MAX_BODY + 1))
    assert answer.status_code == 413
    problem(answer, "E_TOO_LARGE")
    for body in (b"", b"[]", b'{"alerts": []}', b'{"alerts": [{"labels": {"a": 1}}]}'):
        answer = client.post("/api/alert", content=body)
        assert answer.status_code == 400
        problem(answer, "E_QUERY")
    many = {"alerts": [{"labels": {"alertname": "CacheDown"}}] * (api.MAX_ALERTS + 5)}
    said = client.post("/api/alert", json=many).json()
    assert len(said["alerts"]) == api.MAX_ALERTS and said["truncated"]
    for method, url in (("POST", "/api/status"), ("DELETE", "/api/search"), ("PUT", "/api/alert")):
        answer = client.request(method, url)
        assert answer.status_code == 405
        problem(answer, "E_QUERY")

    def breaks(*_: Any, **__: Any) -> None:
        raise ValueError("what a document says: swordfish")

    monkeypatch.setattr(KnowledgeBase, "drift", breaks)
    answer = client.get("/api/drift")
    assert answer.status_code == 500 and "swordfish" not in answer.text
    problem(answer, "E_INTERNAL")
    monkeypatch.setattr(api, "SECONDS", 0)
    answer = client.get("/api/status")
    assert answer.status_code == 504
    problem(answer, "E_TIMEOUT")
