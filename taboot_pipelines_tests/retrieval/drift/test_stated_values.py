"""What a document says of values that configuration declares: which it is said of, and whether it differs."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from taboot_pipelines.retrieval.drift.declared_values import DeclaredValues, FileValues
from taboot_pipelines.retrieval.drift.stated_values import Stated, stated_values
from taboot_pipelines.retrieval.queries.config_files import ConfigEntry, read
from taboot_pipelines.retrieval.queries.service_index import Document

HOUSE = {
    "stacks/git/compose.yaml": """
services:
  forgejo:
    image: codeberg.org/forgejo/forgejo:11.0.3
    ports: ["3300:3000", "2222:22"]
    networks: [proxy, data]
    environment:
      FORGEJO__server__SSH_PORT: "2222"
      WORKERS: "4"
      FORGEJO__cron__MODE: ${CRON_MODE:-daily}
    labels:
      - traefik.http.routers.forgejo.rule=Host(`code.hearth.example`)
  forgejo-db:
    image: postgres:16.9-alpine
    networks: [data]
""",
    "stacks/search/compose.yaml": """
services:
  searxng:
    image: searxng/searxng:2026.1.4-abcdef
    container_name: searx
    ports: ["8899:8080"]
    labels:
      - traefik.http.routers.searx.rule=Host(`find.${BASE_DOMAIN}`)
""",
    "stacks/homeassistant/compose.yaml": """
services:
  homeassistant:
    image: homeassistant/home-assistant:2026.1
    ports: ["8123:8123"]
    networks:
      lan: {ipv4_address: 10.20.0.31}
  mosquitto:
    image: eclipse-mosquitto:2.0.20
    ports: ["1883:1883", "9001:9001"]
    networks:
      lan: {ipv4_address: 10.20.0.32}
""",
    "ansible/group_vars/all.yaml": "k3s_version: v1.31.4\nminio_port: 9000\n",
    "apps/wiki/values.yaml": """
image:
  repository: lscr.io/linuxserver/dokuwiki
  tag: "2025.05"
service:
  port: 8085
ingress:
  hosts:
    - host: wiki.hearth.example
""",
    "ci/release.yaml": "jobs:\n  release:\n    image: python:3.14-bookworm\n",
    "etc/wireguard.yaml": "hosts:\n  attic:\n    ansible_host: 10.20.0.7\n",
}


def declared(files: Mapping[str, str]) -> DeclaredValues:
    found = DeclaredValues()
    for path, text in files.items():
        document = Document(path, "house", path, "application/yaml", False, path, "files")
        entries = [
            ConfigEntry(document, v, 2 if service else 0, service)
            for v in read(path, path, "application/yaml", text).values
            for service in [v.path[1] if v.path[0] == "services" and len(v.path) > 2 else ""]
        ]
        found.take(FileValues(posixpath.dirname(path), entries))
    return found


CONFIGURED = declared(HOUSE)


def said(text: str, path: str = "docs/house.md", configured: DeclaredValues = CONFIGURED) -> list[Stated]:
    return list(stated_values(path, path, posixpath.dirname(path), text, configured))


def differing(text: str, path: str = "docs/house.md") -> list[tuple[str, str, str]]:
    return [(s.property.value, s.name, s.value) for s in said(text, path) if not s.agrees]


TABLE = "| Service | Image | Port | URL | Network |\n|---|---|---|---|---|\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TABLE + "| Forgejo | `forgejo/forgejo:11.0.3` | 3300 | code.hearth.example | proxy |", []),
        (TABLE + "| Forgejo | | 3301 | | |", [("port", "forgejo", "3301")]),
        (TABLE + "| SearXNG | searxng/searxng:2026.2.1-abcdef | | | |",
         [("image", "searxng", "2026.2.1-abcdef")]),
        (TABLE + "| Forgejo | | | https://git.hearth.example | |",
         [("host name", "forgejo", "git.hearth.example")]),
        (TABLE + "| forgejo-db | | | | proxy |", [("network", "forgejo-db", "proxy")]),
        # Another's row, whatever stands above.
        ("# Forgejo\n\n" + TABLE + "| Woodpecker | | 8001 | | |", []),
        ("## Forgejo\n\n| Property | Value |\n|---|---|\n| **Ports** | 3300->3000, 2223->22 |",
         [("port", "forgejo", "2223")]),
        ("- **Forgejo**: port 3399", [("port", "forgejo", "3399")]),
        ("1. **Forgejo** - code\n   - Port: 3399\n2. **Node Exporter** - metrics\n   - Port: 9100",
         [("port", "forgejo", "3399")]),
        ("SearXNG listens on port 8898 of the box.", [("port", "searxng", "8898")]),
        ("`searx` is at http://localhost:8899/ now.", []),
        ("The database of Forgejo is `postgres:15.4-alpine`.", []),
        ("## forgejo-db\n\n**Image:** `postgres:15.4-alpine`", [("image", "forgejo-db", "15.4-alpine")]),
        ("## forgejo-db\n\n**Image:** `postgres:16`", []),
        ("Dokuwiki runs in version 2024.02 here.", [("version", "dokuwiki", "2024.02")]),
        ("| Component | Version |\n|---|---|\n| K3s | v1.30.2 |", [("version", "k3s", "v1.30.2")]),
        ("The cluster runs K3s v1.31.", []),
        ("The cluster runs K3s v1.31.4.2944-1.", []),
        ("K3s v1.30.2-alpine runs on three nodes.", [("version", "k3s", "v1.30.2")]),
        ("MinIO listens on port 9009.", [("port", "minio", "9009")]),
        ("Search is served as `find.${BASE_DOMAIN}`.", []),
        ("Search by SearXNG is served as `finder.${BASE_DOMAIN}`.",
         [("host name", "searxng", "finder.${base_domain}")]),
        ("`attic` has the address 10.20.0.9.", [("address", "attic", "10.20.0.9")]),
        ("`attic` asks 8.8.8.8 for names.", []),
        # A name that is one word in configuration, and a folder that the row names.
        (TABLE + "| Home Assistant | | 8124 | | |", [("port", "homeassistant", "8124")]),
        ("| App | Port | Folder |\n|---|---|---|\n| Search-ng | 8898 | `search/` |",
         [("port", "search", "8898")]),
        ("| App | Port | Folder |\n|---|---|---|\n| Prowlarr | 9696 | `search/` |", []),
        # Each value is that of the name right before it.
        ("On the LAN are homeassistant `10.20.0.33` and mosquitto `10.20.0.32`.",
         [("address", "homeassistant", "10.20.0.33")]),
        ("The tuner is at `http://10.20.0.31:8124`.", [("port", "homeassistant", "8124")]),
        # The machine of whoever reads, under the heading that says of what.
        ("#### Mosquitto\n\n1. Go to `http://YOUR_SERVER_IP:9002`", [("port", "mosquitto", "9002")]),
        ("## mosquitto\n\n| Property | Value |\n|---|---|\n| **Ports** | Internal: 1883 Internal: 9002 |",
         [("port", "mosquitto", "9002")]),
        ("```env\nFORGEJO__server__SSH_PORT=2200\n```", [("setting", "forgejo", "2200")]),
        ("```yaml\nservices:\n  x:\n    image: searxng/searxng:2025.9.9-abcdef\n```",
         [("image", "searxng", "2025.9.9-abcdef")]),
        ("```mermaid\ngraph TD\n  a[searxng<br/>8811:8080]\n```", [("port", "searxng", "8811")]),
        # An end of a mapping that is a variable's default.
        ("## SearXNG\n\n**Ports:** `${SEARX_PORT:-8811}:8080`", [("port", "searxng", "8811")]),
        # A key in one word is that of what the page speaks of.
        ("## Forgejo\n\n```env\nWORKERS=2\n```", [("setting", "forgejo", "2")]),
        ("```env\nWORKERS=2\n```", []),
        # What an image is called says nothing of who runs it.
        ("## forgejo-db\n\n**Image:** `forgejo/forgejo:11.0.2`", []),
        # A host is called as what answers there; at a machine's address is what the row is about; a number is
        # no subject.
        ("| Host | Leads to |\n|---|---|\n| searx.lan | http://10.9.9.9:8898 |", [("port", "searx", "8898")]),
        ("| Name | URL |\n|---|---|\n| SearXNG | http://10.20.0.31:8898 |", [("port", "searxng", "8898")]),
        ("| Port | Protocol | For |\n|---|---|---|\n| 8898 | TCP | pages of SearXNG |",
         [("port", "searxng", "8898")]),
        # Of a list of ports each is right or wrong by itself; whatever machine the reader has.
        ("| Name | Ports |\n|---|---|\n| mosquitto | 1883, 9002/tcp |", [("port", "mosquitto", "9002")]),
        ("## Mosquitto\n\n- Local: http://server-ip:9002", [("port", "mosquitto", "9002")]),
        # A hop of a chain, a row, and a row that is drawn, are about what they begin with.
        ("`attic.lan` -> homeassistant (10.20.0.33:8123)", [("address", "homeassistant", "10.20.0.33")]),
        ("# Attic\n\n| Name | Address | Where |\n|---|---|---|\n| tuner | 10.20.0.9 | by mosquitto |", []),
        ("# Attic\n\n```\n| tuner | 10.20.0.9 | on mosquitto |\n```", []),
    ],
)  # fmt: skip
def test_each_value_is_compared_with_that_of_the_thing_it_is_said_of(
    text: str, expected: list[tuple[str, str, str]]
) -> None:
    assert differing(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "By default Forgejo listens on port 3123.",
        "Forgejo was on port 3123 until spring.",
        "Forgejo has its metrics on port 9123.",
        "It uses certbot since K3s v1.30's library has a bug.",
        "It uses certbot since K3s v1.30’s library has a bug.",
        "Dokuwiki, version >= 2024.02, is needed.",
        "It needs K3s v1.30+ on each node.",
        "Nodes of K3s v1.28-v1.30 lack it, as does K3s v1.26 – v1.27.",
        "Forgejo publishes 3300, and its runner 3123.",
        "## Troubleshooting\n\n- Forgejo on port 3123",
        "## Changelog\n\n- `postgres:12.1-alpine`",
        "```bash\ncurl localhost:3123 # forgejo\n```",
        "```\nforgejo  | listening on 0.0.0.0:3123\n```",
        "`postgres:latest` behind forgejo-db",
        "chown -R 1000:1000 /srv/forgejo",
        "| Path | Owned |\n|---|---|\n| `/srv/forgejo` of forgejo | `568:545` |",
        "- `FORGEJO__server__SSH_PORT`: Public number of the shell of forgejo",
        "## Mosquitto\n\n### Prowlarr (first)\n\n1. Go to `http://YOUR_IP:9696`",
        "Forgejo is reached at https://code.other.example.",
        "10.20.0.0/24 is the network of attic.",
        "| KEY | Default |\n|---|---|\n| `FORGEJO__server__SSH_PORT` | 22 |",
        # A port behind a name that ends a sentence, what would be, and what nothing answers.
        "Runners reach `code.hearth.example` and not `forgejo:3000`. That is by design.",
        "Runners do not reach `forgejo:3000`.",
        "Then forgejo would dial its own `:8124`.",
        "Of forgejo nothing listens on port 8123.",
        # A column that is about metrics, of which one cell says so.
        "| Service | What is on |\n|---|---|\n| Forgejo | listens on `:9300` |\n"
        "| Mosquitto | metrics on `:9301` |",
        # Examples of the tags that a release gets.
        "| Job | Tags |\n|---|---|\n| `release.yml` | `1.2.3`, `1.2` (a release) |",
        # A machine under the house's domain, which something asks for.
        "Forgejo pushes to `builds.hearth.example:9100`, the builds machine.",
        "| Name | What |\n|---|---|\n| `builds.hearth.example` | the builds machine, asked by Forgejo |",
        # A default, which something else may set.
        "`FORGEJO__cron__MODE=hourly` overrides it for forgejo.",
        # Another name beside the right one, and one that is like another's and no word says whose.
        "`code.hearth.example` and `git.hearth.example` lead to Forgejo.",
        "Chat is at wikis.hearth.example.",
        # The router of the network, a range, a title, and a port in the place of a tag.
        "`attic` asks its router 10.20.0.1 for names.",
        "| Forgejo | ports 3100-3200 |",
        "It is drawn as in K3s 1.30 Stats.",
        "Then `forgejo:80` is asked, which is `codeberg.org/forgejo/forgejo`.",
        # Plans.
        "# Roadmap\n\n- **Forgejo**: port 3399",
    ],
)
def test_what_is_said_of_another_time_purpose_or_house_differs_from_nothing(text: str) -> None:
    assert differing(text) == []


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("docs/specs/2026-02-03-git-design.md", False),
        ("docs/2026-02/designs/git.md", False),
        ("docs/proposals/git.md", False),
        # Of what there is, for all that its name tells.
        ("docs/design.md", True),
        ("docs/2026-02-03-git.md", True),
    ],
)
def test_what_a_plan_says_differs_from_nothing(path: str, counts: bool) -> None:
    assert bool(differing("- **Forgejo**: port 3399", path)) is counts


CHARTS = declared(
    {
        **HOUSE,
        "argo/valkey.yaml": "spec:\n  source: {chart: valkey, targetRevision: 9.4.17}\n",
        "flux/harbor.yaml": "spec: {chart: {spec: {chart: harbor, version: 1.18.0}}}\n",
    }
)
RELEASES = "## K3s\n\n| Chart | Version | App version | State |\n|---|---|---|---|\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # What a chart installs is numbered by itself, unless it is like it.
        ("We run Valkey v8.1.3 here.", []),
        ("We run Valkey 9.3.1 here.", [("valkey", "9.3.1")]),
        ("We run Harbor v2.14.0 here.", []),
        ("The chart valkey 8.0.0 is installed.", [("valkey", "8.0.0")]),
        (RELEASES + "| x/valkey | 9.4.17 | v8.1.3 | there |", []),
        (RELEASES + "| x/valkey | 9.4.16 | v9.9.9 | there |", [("valkey", "9.4.16")]),
        (RELEASES + "| x/valkey | 9.4.17 | v9.4.17 | there |", []),
        # One of the versions of a row is the one that is declared, with its letter or without.
        (RELEASES + "| x/valkey | 9.4.16 | v9.4.17 | there |", []),
        # A row is of what it begins with, not of what the section is of, nor of whose that is.
        ("## K3s\n\n| Component | Version | State |\n|---|---|---|\n| Ubuntu Server | 24.04.3 | there |", []),
        ("| Component | Version | For |\n|---|---|---|\n| PostgreSQL (Dokuwiki) | 18.3 | it |", []),
        ("| Component | Version | For |\n|---|---|---|\n| checker | 0.10.1 | drift of K3s |", []),
        ("| Component | Version | For |\n|---|---|---|\n| K3s | 1.30.2 | all |", [("k3s", "1.30.2")]),
        ("Pod policies were dropped: they are removed in K3s 1.25.", []),
        ("| version-check | note |\n|---|---|\n| version-check | In phase 5.0 of K3s it is set |", []),
        ("We run K3s and removed the policies; K3s 1.25 is there.", [("k3s", "1.25")]),
    ],
)
def test_versions_are_of_charts_or_of_what_runs(text: str, expected: list[tuple[str, str]]) -> None:
    found = [(s.name, s.value) for s in said(text, configured=CHARTS) if not s.agrees]
    assert found == expected


@pytest.mark.parametrize(
    "text",
    [
        "Browser → Forgejo → Wiki.js (:3010) → storage (:9010)",
        "## Forgejo\n\n```sh\nkubectl port-forward svc/forgejo-postgresql 5444:5444\n```",
        "## Forgejo\n\nOpen it with `kubectl port-forward svc/forgejo-cache 3344:3345` here, on its port.",
        "## Roadmap\n\n| Forgejo | https://git.hearth.example |",
        "Forgejo uses `forgejo-postgresql.git.svc.hearth.example` for it.",
        "Set `code_ini.hearth.example` of forgejo.",
    ],
)
def test_what_is_of_another_thing_is_no_drift(text: str) -> None:
    assert differing(text) == []


def test_a_hop_of_a_chain_has_its_own_port() -> None:
    assert differing("Browser → caddy (:80) → Forgejo (:3010) → storage") == [("port", "forgejo", "3010")]
    assert said("version: '3.8'\n", "files/k3s/docker-compose.yml.j2") == []


def test_a_page_is_about_what_it_is_called_as() -> None:
    page = "# Web\n\nOpen it on port 8890.\n"
    assert differing(page, "docs/services/search.md") == [("port", "search", "8890")]
    assert differing(page, "docs/search/README.md") == [("port", "search", "8890")]
    # A name that is a word counts beside what it names, and above it.
    row = "| App | Port |\n|---|---|\n| search | 8890 |\n"
    assert differing(row, "stacks/README.md") == [("port", "search", "8890")]
    assert differing(row, "docs/apps.md") == []
    # One of many pages of a folder has a subject of its own.
    assert differing(page, "docs/search/backups.md") == []
    # Two databases are told apart by the folder that the page is called as.
    of_git = declared({**HOUSE, "stacks/chat/compose.yaml": "services:\n  db: {image: postgres:15.1}\n"})
    database = "**Image:** `postgres:15.1`\n"
    found = [(s.name, s.agrees) for s in said(database, "docs/services/git.md", of_git)]
    assert found == [("forgejo-db", False)]


def test_a_version_that_stands_in_a_variable_is_declared() -> None:
    text = "`agent` runs `searxng/searxng:2026.2.1-abcdef`."
    assert differing(text)
    told = declared({**HOUSE, "roles/agent/defaults/main.yml": "agent_searxng_version: 2026.2.1-abcdef\n"})
    assert said(text, configured=told) == []


def test_a_domain_that_is_filled_in_elsewhere_is_any() -> None:
    both = declared({**HOUSE, "etc/site.yaml": "host: www.hearth.example\n"})
    assert all(s.agrees for s in said("SearXNG is at https://find.hearth.example.", configured=both))


def test_a_readme_beside_a_project_speaks_of_it() -> None:
    assert differing("Open the web page on port 8890.", "stacks/search/README.md") == [
        ("port", "search", "8890")
    ]
    assert differing("Open the web page on port 8890.", "docs/notes.md") == []


def test_a_column_has_the_ends_of_mappings_that_most_of_its_rows_have() -> None:
    stacks = {
        f"{n}/compose.yaml": f"services: {{app{n}: {{image: a/b:1, ports: ['810{n}:80']}}}}\n"
        for n in range(5)
    }
    moved = declared({**stacks, "4/compose.yaml": stacks["4/compose.yaml"].replace("8104:80", "8105:8104")})

    def wrong(rows: int, configured: DeclaredValues) -> list[str]:
        of = [*range(rows), 4]
        text = "| Port | For |\n|---|---|\n" + "".join(f"| 810{n} | app{n} |\n" for n in of)
        return [s.value for s in said(text, configured=configured) if not s.agrees]

    assert wrong(4, declared(stacks)) == []
    # What the container has inside would do, were this no column of what is published.
    assert wrong(4, moved) == ["8104"] and wrong(1, moved) == []
    url = "| App | URL |\n|---|---|\n| app4 | http://10.20.0.8:8104 |\n"
    assert [s.agrees for s in said(url, configured=moved)] == [False]
    assert all(s.agrees for s in said(url, configured=declared(stacks)))


def test_both_sides_are_where_they_are_said_to_be() -> None:
    text = "# House\n\n" + TABLE + "| Forgejo | | 3301 | | |\n"
    (found,) = (s for s in said(text) if not s.agrees)
    assert text[found.start : found.end] == "3301" and found.line == 5
    assert text[found.unit_start : found.unit_end] == "| Forgejo | | 3301 | | |"
    for side in found.declared:
        assert side.value in HOUSE[side.doc_id][side.start : side.end]
        assert HOUSE[side.doc_id].count("\n", 0, side.start) + 1 == side.line


@settings(max_examples=200)
@given(st.text(max_size=200) | st.lists(st.sampled_from(
    ["| ", "forgejo", " | ", "3301", ":", "->", "8080", "\n", "|---|---|", "# ", "- ", "`", "```\n",
     "postgres:15", "code.hearth.example", "${", "}", "İ", "10.20.0.9", "KEY_A=", "  ", "version ", "1.2.3"]
), max_size=40).map("".join))  # fmt: skip
@example("*postgres:0*İ")
def test_any_text_is_read_and_every_value_stands_where_it_says(text: str) -> None:
    for found in said(text):
        # Marks of Markdown within a value are none of it.
        there = re.sub(r"[*`]", "", text[found.start : found.end])
        assert there.lower().replace(" ", "-").replace("_", "-") in (
            found.value.lower(), found.value.lower().replace("_", "-"),
        )  # fmt: skip
        assert found.unit_start <= found.start < found.end <= max(found.unit_end, found.end)
        assert found.declared


def test_the_order_of_files_changes_nothing() -> None:
    backwards = declared(dict(reversed(HOUSE.items())))
    text = TABLE + "| Forgejo | postgres:15.1 | 3301 | git.hearth.example | search |\n- SearXNG: 8898\n"

    def as_rows(configured: DeclaredValues) -> list[tuple[str, str, bool, list[str]]]:
        found = said(text, configured=configured)
        return [(s.property.value, s.value, s.agrees, sorted(d.value for d in s.declared)) for s in found]

    assert as_rows(backwards) == as_rows(CONFIGURED)
