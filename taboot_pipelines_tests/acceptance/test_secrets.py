"""Secrets stop at the blob (rule ``secrets-stop-at-the-blob``): planted in every format, they are in no other
file, log, message, quote or answer.
"""

from __future__ import annotations

import json
import logging
import os
import random
import string
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines_tests.acceptance.checks import check_ledger, columns, edges, letters, paths
from taboot_pipelines_tests.connectors.servers import send, serve
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World, contents, holding

#: Public words that stand beside the secrets: they must be found again.
PUBLIC = (
    "appuser",
    "appdb",
    "5432",
    "wiki.example.org",
    "brokeruser",
    "mailadmin",
    "smtp.example.org",
    "quartzhost",
    "tokenizer",
    "9090",
    "passbolt",
    "feldspar.example.org",
    "granite-user",
    "basaltview",
    "marbleuser",
    "slatehost",
    "X-Api-Key",
    "obsidian.example.org",
)


@dataclass
class Planted:
    """Makes secrets that occur nowhere else, and remembers them with where they were put. The same at every
    run.
    """

    known: dict[str, str] = field(default_factory=dict)
    source: random.Random = field(default_factory=lambda: random.Random(20240229))

    def mixed(self, where: str) -> str:
        """As a generator makes them: letters of both cases and digits."""
        return self._keep(
            where, "".join(self.source.choices(string.ascii_letters + string.digits, k=20)) + "q7Z"
        )

    def word(self, where: str) -> str:
        """As people choose them: a pronounceable word that nothing but its place gives away."""
        return self._keep(
            where,
            "".join(self.source.choice(letters) for _ in range(5) for letters in ("bdfgklmnprtvz", "aeiou"))
            + "x",
        )

    def pieces(self, where: str) -> str:
        """With punctuation in it."""
        return self._keep(
            where,
            "-".join(
                "".join(self.source.choices(string.ascii_lowercase + string.digits, k=5)) for _ in range(4)
            )
            + ".z~9",
        )

    def _keep(self, where: str, secret: str) -> str:
        assert secret not in self.known.values()
        self.known[f"{where}#{len(self.known)}"] = secret
        return secret


def plant(world: World, base: str) -> Planted:
    """Sources of every type full of secrets; ``base``: where a page of them is served."""
    p = Planted()
    stacks = world.source("stacks", "compose", host="box.example.org")
    for name in ("app", "broken", "strange"):
        (stacks / name).mkdir()
    (stacks / "app/.env").write_text(
        f"CACHE_PASSWORD={p.word('.env')}\nDB_PASSWORD={p.mixed('.env')}\nexport"
        f" BROKER_PASSWORD='{p.pieces('.env')}'\nPUBLIC_PORT=9090\n"
        f'SESSION_COOKIE_SALT={p.mixed(".env")}\nUNUSED_TOKEN="{p.word(".env")}"\n'
    )
    (stacks / "app/web.env").write_text(
        "# for the"
        f" web\nSECRET_KEY={p.mixed('env_file')}\nADMIN_PASS={p.word('env_file')}\nMAIL_USER=mailadmin\n"
    )
    (stacks / "app/compose.yaml").write_text(f"""\
services:
  web:
    image: ghcr.io/example/quartzweb:1.2
    build: {{context: ., args: {{NPM_TOKEN: {p.mixed("build args")}}}}}
    env_file: [web.env]
    ports: ["${{PUBLIC_PORT}}:80"]
    environment:
      ADMIN_PASSWORD: {p.word("environment map")}
      API_TOKEN: "{p.mixed("environment map")}"
      DATABASE_URL: postgres://appuser:{p.pieces("URL userinfo")}@db:5432/appdb
      REPLICA_URL: postgresql://appuser:${{DB_PASSWORD}}@db:5432/appdb?sslmode=off
      CACHE_URL: redis://:${{CACHE_PASSWORD}}@cache:6379/0
      BROKER_URL: amqp://brokeruser:${{BROKER_PASSWORD:-{p.word("default")}}}@broker:5672/
      CALLBACK: https://wiki.example.org/in?access_token={p.mixed("query")}&page=2
      TOKENIZER: tokenizer
    command: ["serve", "--port=9090", "--auth-token", "{p.word("command list")}"]
    labels:
      - traefik.http.routers.web.rule=Host(`wiki.example.org`)
      - traefik.http.middlewares.a.basicauth.users=\
mailadmin:$$2y$$05$$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy
  db:
    image: postgres:16
    environment:
      - POSTGRES_USER=appuser
      - POSTGRES_PASSWORD={p.word("environment list")}
      - "POSTGRES_INITDB_SECRET={p.pieces("environment list")}"
      - POSTGRES_DB=appdb
  cache:
    image: redis:7
    command: redis-server --requirepass {p.word("command")}
    healthcheck:
      test: ["CMD", "redis-cli", "-a", "{p.mixed("healthcheck")}", "ping"]
  legacy:
    image: mysql:8
    healthcheck:
      test: ["CMD", "mysqladmin", "ping", "-u", "root", "-p{p.word("healthcheck")}"]
  broker:
    image: rabbitmq:3
    environment: {{RABBITMQ_DEFAULT_USER: brokeruser, \
RABBITMQ_DEFAULT_PASS: {p.word("environment flow map")}}}
""")
    p.known["basicauth label"] = "N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy"
    (stacks / "app/compose.override.yaml").write_text(
        f"services:\n  web:\n    environment:\n      OAUTH_CLIENT_SECRET: {p.mixed('override')}\n"
    )
    (stacks / "app/Dockerfile").write_text(
        f"FROM alpine:3.20\nENV API_KEY={p.mixed('Dockerfile')} USER=granite-user\nENV DB_PASSWORD"
        f" {p.word('Dockerfile')}\nARG SIGNING_SECRET={p.pieces('Dockerfile')}\n"
    )
    # Where the parser stops, it stands in the midst of a secret.
    (stacks / "broken/compose.yaml").write_text(
        f"services:\n  db:\n    environment:\n      PASSWORD: {p.word('syntax error')}: [\n      TOKEN:"
        f' "{p.mixed("syntax error")}\n'
    )
    (stacks / "strange/.env").write_text(f"TOKEN={p.mixed('.env')}\nPW={p.pieces('.env')}\n")
    (stacks / "strange/compose.yaml").write_text(
        "services:\n  s:\n    image: 'Bad Image ${TOKEN}'\n    ports: ['${TOKEN}:80', 'x${PW}']\n   "
        " depends_on: ['${PW}/${TOKEN}']\n    environment: {PASSWORD: '${TOKEN', OTHER_PASSWORD:"
        " '${NOT_SET:?not set}'}\n    extra_hosts: ['slatehost:${PW}']\n"
    )

    proxy = world.source("proxy", "swag")
    (proxy / "wiki.conf").write_text(f"""\
server {{
  listen 443 ssl;
  server_name wiki.example.org;
  set $api_key "{p.mixed("nginx set")}";
  location / {{
    proxy_set_header Authorization "Bearer {p.mixed("nginx header")}";
    proxy_set_header X-Api-Key "{p.word("nginx header")}";
    proxy_set_header X-User feldspar.example.org;
    proxy_pass http://web:9090/?token={p.mixed("nginx query")};
  }}
  location /inner {{ proxy_pass http://marbleuser:{p.pieces("nginx userinfo")}@db:5432; }}
}}
""")
    (proxy / "open.conf").write_text(
        f'server {{\n  location / {{\n    proxy_set_header X-Auth-Token "{p.word("unclosed quote")};\n   '
        f" proxy_pass http://{p.mixed('nginx garbage').lower()}_token:99999;\n"
    )
    p.known.popitem()  # A host's name is no secret, whatever it is called.

    notes = world.source("notes", "files", languages=["en", "de"])
    (notes / "runbook.md").write_text(f"""\
---
title: Runbook
api_key: {p.mixed("front matter")}
---
# Runbook of basaltview

The database listens on 5432 of slatehost, its user is appuser, and the password is `{p.word("prose")}`. \
Set `MAIL_PASSWORD` to `{p.pieces("prose")}`
before smtp.example.org lets anybody in. Password managers such as passbolt keep the rest. \
See https://marbleuser:{p.mixed("prose URL")}@obsidian.example.org/x
and https://obsidian.example.org/in?api_key={p.mixed("prose query")}&page=2 for more.

**Password:** {p.word("bold")}

```yaml
environment:
  - GRAFANA_ADMIN_PASSWORD={p.word("code block")}
  GF_SECRET: {p.mixed("code block")}
```

```bash
curl -u mailadmin:{p.word("curl")} -H 'Authorization: Bearer {p.mixed("curl")}' https://wiki.example.org/
mysql -u appuser -p{p.word("mysql")} appdb
export TS_AUTHKEY=tskey-auth-{p.mixed("tskey")}
```

| Variable | Value |
|---|---|
| `DB_USER` | `appuser` |
| `DB_PASSWORD` | `{p.word("table")}` |
| API_KEY | {p.mixed("table")} |

-----BEGIN PRIVATE KEY-----
{p.mixed("private key")}{p.mixed("private key")}
-----END PRIVATE KEY-----
""")
    (notes / "heading.md").write_text(
        f"# Password: {p.mixed('heading')}\n\nThe heading says too much, as headings in notes about slatehost"
        " sometimes do.\n"
    )
    (notes / "values.yaml").write_text(
        f"smtp:\n  host: smtp.example.org\n  username: mailadmin\n  password: {p.word('YAML')}\napiKeys:\n  -"
        f" {p.mixed('YAML list')}\n  - {p.mixed('YAML list')}\nsecret: |\n  {p.pieces('block scalar')}\n "
        f" {p.word('block scalar')}\n---\napiVersion: v1\nkind: Secret\nmetadata: {{name: x}}\nstringData:\n "
        f" user.txt: {p.word('kubernetes')}\n"
    )
    (notes / "settings.json").write_text(
        f'{{"host": "quartzhost", "password": "{p.word("JSON")}", "nested": {{"clientSecret":'
        f' "{p.mixed("JSON")}"}}, "url": "ftp://granite-user:{p.pieces("JSON URL")}@slatehost/x"}}\n'
    )
    (notes / "broken.json").write_text(
        f'{{"token": "{p.mixed("broken JSON")}", "password": "{p.word("broken JSON")}\n'
    )
    (notes / "app.ini").write_text(
        f"[smtp]\nhost = smtp.example.org\npassword = {p.word('INI')}\n[Interface]\nPrivateKey ="
        f" {p.mixed('INI')}\n"
    )
    (notes / "app.toml").write_text(f'[db]\nuser = "appuser"\npassword = "{p.word("TOML")}"\n')
    (notes / "never.env").write_text(f"PASSWORD={p.word('no document')}\n")
    (notes / "page.html").write_text(f"""\
<html><head><title>Setup of quartzhost</title><meta name="description" \
content="password: {p.mixed("meta")}"></head><body><main><h1>Setup of quartzhost</h1>
<p>The mail account is mailadmin and its password is <code>{p.word("HTML code")}</code>, \
as everybody in the team at slatehost knows by now. It listens on 9090.</p>
<pre><span>DB_PASSWORD</span>=<span>{p.mixed("HTML pre")}</span>
<span>DB_USER</span>=appuser</pre>
<table><tr><th>Name</th><th>Value</th></tr><tr><td>API_TOKEN</td><td>{p.mixed("HTML table")}</td></tr>\
<tr><td>DB_HOST</td><td>slatehost</td></tr></table>
<p>Read on at <a href="https://obsidian.example.org/x?access_token={p.mixed("HTML link")}">\
the page of obsidian.example.org</a>, which has the details of it all.</p></main></body></html>
""")
    # Dead items: what is wrong with them must not be told in their own words.
    (notes / "torn.md").write_bytes(
        b"\xff\xfe" + f"password: {p.mixed('dead letter')}".encode("utf-16-le") + b"\x00\xd8"
    )
    (notes / "binary.md").write_bytes(
        f"password: {p.mixed('dead letter')} \x00\x01".encode() + bytes(range(256))
    )
    (notes / "sprache.md").write_text(
        "Das Kennwort steht in der Datei. " * 3 + f"\n\npassword: {p.word('accepted language')}\n"
    )
    (notes / "langue.md").write_text(
        "Le serveur est dans la cave et personne ne le trouve sans la clef de la porte. " * 4
        + f"\n\npassword: {p.word('rejected language')}\n"
    )
    plant_chats(p, world.source("chats", "ai_session", thinking=True))
    world.entries.append(
        {"id": "site", "type": "web", "urls": [f"{base}/page"], "allow_cidrs": ["127.0.0.1/32"]}
    )
    world.declare()
    return p


def plant_chats(p: Planted, chats: Path) -> None:
    """What people paste into chats, and what tools say in them."""

    def said(role: str, *blocks: dict[str, object]) -> str:
        message = {"role": role, "content": blocks}
        return json.dumps({"type": role, "sessionId": "s", "message": message}) + "\n"

    pasted = (
        f"export CHAT_TOKEN={p.mixed('chat')}\nIt is for appuser, and the password is `{p.word('chat')}`."
    )
    dump = "kind: ConfigMap\n" + "  a: b\n" * 900 + f"Authorization: Bearer {p.mixed('chat result')}\n"
    written = {"file_path": "/srv/.env", "content": f"DB_PASSWORD={p.mixed('chat call')}\nDB_USER=appuser\n"}
    (chats / "session.jsonl").write_text(
        said("user", {"type": "text", "text": pasted})
        + said(
            "assistant",
            {"type": "thinking", "thinking": f"The token is `{p.mixed('chat thinking')}`."},
            {"type": "tool_use", "id": "1", "name": "Write", "input": written},
        )
        + said("user", {"type": "tool_result", "tool_use_id": "1", "content": dump})
        + f'{{"type": "user", "message": {{"content": "password: {p.mixed("chat corrupt line")}\n'
    )
    arguments = json.dumps({"command": ["bash", "-lc", f"mysql -u appuser -p{p.word('chat command')} appdb"]})
    call = {"type": "function_call", "name": "shell", "arguments": arguments, "call_id": "1"}
    (chats / "rollout.jsonl").write_text(json.dumps({"type": "response_item", "payload": call}) + "\n")
    titled = {
        "id": "c-1",
        "title": f"password: {p.mixed('chat title')}",
        "mapping": {
            "a": {"message": {"author": {"role": "user"}, "content": {"parts": ["Hello slatehost"]}}},
            "b": {
                "message": {
                    "author": {"role": "assistant"},
                    "content": {"parts": [f"redis://:{p.mixed('chat variant')}@slatehost:6379"]},
                }
            },
        },
    }
    (chats / "conversations.json").write_text(json.dumps([titled]))
    (chats / "aider.md").write_text(
        "# aider chat started at 2026-01-01 10:00:00\n\n#### for appuser the"
        f" password is `{p.word('aider')}`\n\n> export AIDER_API_KEY={p.mixed('aider')}\n"
    )


def page(p: Planted) -> bytes:
    return f"""<html><head><title>Served</title></head><body><main><h1>Served</h1>\
<p>The served page says that the server of feldspar.example.org takes the token below,
and that basaltview keeps its configuration in a file.</p><pre>api_token: {p.mixed("served page")}
password: {p.word("served page")}</pre></main></body></html>""".encode()


@dataclass
class Ingested:
    world: World
    secrets: dict[str, str]
    output: str


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory, tei: FakeTei) -> Iterator[Ingested]:
    """Ingested by the command in a process of its own: Dagster's storage and logs are among what is
    searched.
    """
    body = b""

    def answer(h: BaseHTTPRequestHandler) -> None:
        send(h, 200, body, content_type="text/html")

    with serve(answer) as site:
        world = World(tmp_path_factory.mktemp("secrets"), tei.url)
        planted = plant(world, site.base)
        body = page(planted)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("TABOOT_", "DAGSTER_"))} | {
            "TABOOT_HOME": str(world.home),
            "TABOOT_SOURCES": str(world.directory / "sources.yaml"),
            "TABOOT_TEI__URL": tei.url,
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        done = subprocess.run(
            [sys.executable, "-c", "from taboot_pipelines.cli import main; main()", "ingest"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr[-3000:]
        yield Ingested(world, planted.known, done.stdout + done.stderr)
        world.workspace.close()


@pytest.fixture(scope="module")
def kb(ingested: Ingested) -> KnowledgeBase:
    return ingested.world.kb()


def leaking(ingested: Ingested, text: str) -> list[str]:
    """Which secrets stand in a text, in any case; by where they were planted, so that no message repeats
    them.
    """
    lower = text.casefold()
    return [where for where, secret in ingested.secrets.items() if secret.casefold() in lower]


def test_everything_was_taken_in(ingested: Ingested) -> None:
    world = ingested.world
    assert len(ingested.secrets) > 60
    assert paths(world.kb()) == {
        *(
            f"stacks/{p}"
            for p in (
                "app/compose.yaml",
                "app/compose.override.yaml",
                "app/Dockerfile",
                "broken/compose.yaml",
                "strange/compose.yaml",
            )
        ),
        "proxy/wiki.conf",
        "proxy/open.conf",
        *(
            f"notes/{p}"
            for p in (
                "runbook.md",
                "heading.md",
                "values.yaml",
                "settings.json",
                "broken.json",
                "app.ini",
                "app.toml",
                "page.html",
                "sprache.md",
            )
        ),
        *(f"chats/{p}" for p in ("session.jsonl", "rollout.jsonl", "conversations.json#c-1", "aider.md")),
        next(f"site/{x}" for x in world.workspace.catalog.locators.of_source("default", "site")),
    }
    dead = letters(world)
    assert {c for i, c in dead.items() if i.startswith("notes/documents/")} == {
        "E_ENCODING",
        "E_BINARY",
        "E_LANGUAGE",
    }
    assert (
        dead["stacks/tier_a_triples/compose:broken/compose.yaml"] == "E_PARSE"
        and dead["proxy/tier_a_triples/nginx:open.conf"] == "E_PARSE"
    )
    assert dead["stacks/tier_a_triples/compose:strange/compose.yaml"]
    check_ledger(world)


def test_no_file_but_the_blobs_holds_a_secret(ingested: Ingested) -> None:
    home = ingested.world.home
    assert {
        file: found
        for file, text in contents(home)
        if not file.startswith("blobs/sources/default/") and (found := leaking(ingested, text))
    } == {}


def test_the_search_for_leaks_can_find_one(ingested: Ingested) -> None:
    """Every kind of file is really looked into: public words that stand beside the secrets are found in
    each.
    """
    home, secret = ingested.world.home, next(iter(ingested.secrets.values()))
    assert {Path(f).name for f in holding(home, "basaltview")} >= {
        "shard-00000.duckdb",
        "chunks.arrow",
        "postings.arrow",
    }
    assert any(f.endswith(".parquet") for f in holding(home, "basaltview"))
    assert any(f.startswith("blobs/sources/default/") for f in holding(home, secret))
    assert "catalog.db" in " ".join(holding(home, "strange/compose.yaml"))
    # Dagster's storage names items by id, and knows the codes.
    assert any(f.startswith("dagster/") for f in holding(home, "E_PARSE")) and not any(
        f.startswith("dagster/") for f in holding(home, "strange/compose.yaml")
    )


def test_no_message_or_log_holds_a_secret(
    ingested: Ingested, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    world = ingested.world
    assert "E_PARSE" in ingested.output and leaking(ingested, ingested.output) == []
    assert leaking(ingested, columns(world.home)) == []
    # Everything once more in this process, with every logger at its most talkative.
    for source, file in (
        ("stacks", "strange/compose.yaml"),
        ("stacks", "broken/compose.yaml"),
        ("proxy", "open.conf"),
        ("notes", "torn.md"),
        ("notes", "heading.md"),
    ):
        with (world.directory / source / file).open("ab") as f:
            f.write(b"\n\n")
    with caplog.at_level(logging.DEBUG):
        reports = world.ingest("stacks", "proxy", "notes")
    assert caplog.records and leaking(ingested, caplog.text) == []
    captured = capfd.readouterr()
    assert leaking(ingested, captured.out + captured.err) == []
    assert leaking(ingested, repr(reports)) == []


def test_no_quote_hit_or_answer_holds_a_secret(ingested: Ingested, kb: KnowledgeBase) -> None:
    explained = [kb.explain(e["edge_id"]) for e in edges(kb)]
    assert len(explained) > 50 and leaking(ingested, repr(explained)) == []
    for table in (kb.nodes(), kb.edges(), kb.documents()):
        assert leaking(ingested, str(table.to_pylist())) == []
    for question in (
        "What is the database password of appuser?",
        "API token",
        "password",
        "secret key of slatehost",
    ):
        hits = kb.search(question, limit=50)
        assert hits.hits and leaking(ingested, repr(hits)) == []
        assert leaking(ingested, repr([kb.explain(h) for h in hits.hits])) == []
        assert leaking(ingested, repr(kb.answer(question))) == []


def test_a_search_for_a_secret_finds_nothing(ingested: Ingested, kb: KnowledgeBase) -> None:
    found = {
        where: [h.url for h in kb.search(secret, mode="keyword").hits]
        for where, secret in ingested.secrets.items()
    }
    assert {where: urls for where, urls in found.items() if urls} == {}


def test_what_is_public_beside_them_survives(ingested: Ingested, kb: KnowledgeBase) -> None:
    for word in PUBLIC:
        assert any(word in h.text for h in kb.search(word, mode="keyword", limit=50).hits), word
    facts = {(e["type"], e["start_name"], e["end_name"]) for e in edges(kb)}
    # URLs lead where they lead, password or not.
    assert {("CONNECTS_TO", "web", end) for end in ("db", "cache", "broker")} <= facts
    assert ("ROUTES_TO", "proxy", "web") in facts
    ports = [e["properties"] for e in edges(kb) if e["type"] == "BINDS" and e["start_name"] == "web"]
    assert len(ports) == 1 and '"port":9090' in ports[0]
