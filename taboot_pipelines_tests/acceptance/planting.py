"""Secrets planted in what every type of source reads, and public words beside them."""

from __future__ import annotations

import base64
import json
import random
import string
from dataclasses import dataclass, field
from pathlib import Path

from taboot_pipelines_tests.world import World

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
    "agatenet",
    "jasperuser",
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

1. Stop the workers.
2. Set `BACKUP_PASSWORD` to `{p.word("step")}`.
3. Start the workers.
4. Look at https://marbleuser:{p.mixed("step URL")}@obsidian.example.org/state.
5. Tell the others.

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
    plant_network(p, world.source("network", "unifi"))
    plant_tailnet(p, world.source("tailnet", "tailscale"))
    plant_mail(p, world.source("mail", "gmail"))
    plant_logs(p, world.source("logs", "elasticsearch"))
    plant_videos(p, world.source("videos", "youtube"))
    plant_threads(p, world.source("repositories", "github"), world.source("forum", "reddit"))
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


def plant_network(p: Planted, network: Path) -> None:
    """A controller's export, which holds every key of a network in the clear."""
    wlans = [
        {"_id": "w1", "name": "agatenet", "security": "wpapsk", "x_passphrase": p.word("UniFi WLAN")},
        {
            "_id": "w2",
            "name": "guests",
            "private_preshared_keys": [{"password": p.word("UniFi PPSK"), "networkconf_id": "n1"}],
            "sae_psk": [{"psk": p.mixed("UniFi SAE"), "vlan": 20}],
        },
    ]
    (network / "wlans.json").write_text(json.dumps({"meta": {"rc": "ok"}, "data": wlans}))
    vpn = {
        "_id": "n1",
        "name": "roadwarriors",
        "purpose": "remote-user-vpn",
        "ip_subnet": "10.8.0.1/24",
        "x_ipsec_pre_shared_key": p.pieces("UniFi VPN"),
        "x_wireguard_private_key": p.mixed("UniFi VPN"),
    }
    settings = {
        "_id": "s1",
        "key": "mgmt",
        "x_ssh_username": "marbleuser",
        "x_ssh_password": p.word("UniFi SSH"),
    }
    radius = {"_id": "r1", "name": "jasperuser", "x_password": p.word("UniFi RADIUS")}
    for name, said in (("networks", vpn), ("settings", settings), ("accounts", radius)):
        (network / f"{name}.json").write_text(json.dumps({"meta": {"rc": "ok"}, "data": [said]}, indent=2))
    voucher = {
        "_id": "v1",
        "code": "48213" + "77310",
        "note": "for jasperuser",
        "quota": 1,
        "status": "VALID_ONE",
    }
    p.known["UniFi voucher"] = str(voucher["code"])
    (network / "vouchers.json").write_text(json.dumps([voucher]))


def plant_tailnet(p: Planted, tailnet: Path) -> None:
    """Keys of machines and of people's notes in a policy."""
    keys = {"machineKey": f"mkey:{p.mixed('machine key')}", "nodeKey": f"nodekey:{p.mixed('node key')}"}
    device = {
        "nodeId": "nGranite1",
        "id": "1",
        "name": "beryl.tail0000.ts.net",
        "hostname": "beryl",
        "addresses": ["100.64.0.1"],
        "tailnetLockKey": f"nlpub:{p.mixed('tailnet lock key')}",
        **keys,
    }
    (tailnet / "devices.json").write_text(json.dumps({"devices": [device]}))
    (tailnet / "policy.hujson").write_text(
        f"// The key is tskey-auth-{p.mixed('policy comment')}, made by jasperuser.\n"
        '{"acls": [{"action": "accept", "src": ["*"], "dst": ["*:*"]}],}\n'
    )


def plant_mail(p: Planted, mail: Path) -> None:
    """Passwords that people send each other, in every part of a message."""
    attached = base64.b64encode(
        f"[smtp]\nuser = appuser\npassword = {p.word('attachment')}\n".encode()
    ).decode()
    (mail / "welcome.eml").write_text(
        "From: Ada <ada@onyx.example.org>\nTo: team@onyx.example.org\nMessage-ID: <1@onyx.example.org>\n"
        f"Subject: password: {p.word('mail subject')}\nDate: Mon, 2 Mar 2026 10:00:00 +0000\n"
        'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b"\n\n'
        "--b\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n"
        + base64.b64encode(
            f"The host is slatehost.\nPassword: {p.word('mail body')}\n\n"
            f"> API_TOKEN={p.mixed('mail quote')}\n".encode()
        ).decode()
        + '\n--b\nContent-Type: text/plain\nContent-Disposition: attachment; filename="smtp.ini"\n'
        f"Content-Transfer-Encoding: base64\n\n{attached}\n--b--\n"
    )
    (mail / "page.eml").write_text(
        "From: ada@onyx.example.org\nSubject: The token\nMessage-ID: <2@onyx.example.org>\n"
        "Content-Type: text/html; charset=utf-8\n\n<p>Open <a"
        f' href="https://onyx.example.org/?access_token={p.mixed("mail link")}">the page</a>. The password is'
        f" <b>{p.mixed('mail HTML')}</b>.</p>\n"
    )


def plant_logs(p: Planted, logs: Path) -> None:
    """What services write into their logs."""
    hits = [
        {"_index": "app", "_id": "1", "_source": {"message": f"GET /in?api_key={p.mixed('log query')} 200"}},
        {"_index": "app", "_id": "2", "_source": {"message": "slatehost", "password": p.word("log field")}},
        {
            "_index": "app",
            "_id": "3",
            "_source": {"headers": {"authorization": f"Bearer {p.mixed('log header')}"}, "user": "appuser"},
        },
    ]
    (logs / "hits.json").write_text(json.dumps({"hits": {"hits": hits}}))
    node = {"name": "es-1", "ip": "10.0.0.8", "settings": {"bootstrap": {"password": p.word("node setting")}}}
    (logs / "nodes.json").write_text(json.dumps({"cluster_name": "c", "nodes": {"n": node}}))


def plant_videos(p: Planted, videos: Path) -> None:
    """What is written below a video, and shown in its captions."""
    (videos / "talk.info.json").write_text(
        json.dumps(
            {
                "id": "aaaaaaaaaaa",
                "title": "Setting up slatehost",
                "description": f"The stream's settings: STREAM_TOKEN={p.mixed('video description')}",
                "extractor_key": "Youtube",
            }
        )
    )
    (videos / "talk.vtt").write_text(
        f"WEBVTT\n\n00:01.000 --> 00:04.000\nexport API_TOKEN={p.mixed('caption')}\n\n"
        "00:04.000 --> 00:06.000\nand that is slatehost\n"
    )


def plant_threads(p: Planted, repositories: Path, forum: Path) -> None:
    """What people paste into issues and threads."""
    issue = {
        "number": 7,
        "title": "Login fails",
        "html_url": "https://github.com/onyx/app/issues/7",
        "state": "open",
        "user": {"login": "jasperuser"},
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
        "body": f"```\nDB_PASSWORD={p.mixed('issue body')}\n```\nThe password is `{p.word('issue body')}`",
        "labels": [],
        "comments": 0,
    }
    (repositories / "issue.json").write_text(json.dumps(issue))
    post = {
        "id": "abc",
        "name": "t3_abc",
        "title": "My compose file",
        "author": "jasperuser",
        "subreddit": "selfhosted",
        "permalink": "/r/selfhosted/comments/abc/my_compose_file/",
        "selftext": f"    MYSQL_ROOT_PASSWORD: {p.word('post')}\n\nIt runs on slatehost.",
        "created_utc": 1767225600.0,
        "is_self": True,
    }
    listing = {"kind": "Listing", "data": {"children": [{"kind": "t3", "data": post}], "after": None}}
    (forum / "listing.json").write_text(json.dumps(listing))
