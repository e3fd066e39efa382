"""What tables, items and arrows of any document state, and what they do not."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from taboot_pipelines.extraction.tier_a.prose.claims import relations
from taboot_pipelines.extraction.tier_a.prose.reading import SENTENCES, STRUCTURED
from taboot_pipelines.extraction.tier_a.prose.segments import read_text, segments
from taboot_pipelines.knowledge.document_units import DocumentText
from taboot_pipelines.model.graph import Basis, check_edge, check_node
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.stages.tier_a_triples import ProseExtractor
from taboot_pipelines.stages.tier_b_triples import RelationExtractor

Fact = tuple[str, str, str, int | None]


def facts(text: str) -> set[Fact]:
    return {
        (e.start.name, e.type, e.end.name, e.properties.get("port"))
        for e in relations(text, "a.md", STRUCTURED | SENTENCES)
    }


SERVICES = """# House

| Service | Image | Port | URL | Database |
|---|:--:|---|---|---|
| **Wikila** | wik/wikila:2.1 | 8300 | https://wikila.lab.net | wikila-postgres |
| [Blogger](docs/b.md) | `ghcr.io/blg/blogger:9` | `9123:80/tcp` | — | |
"""


def test_a_row_is_read_by_its_headers_and_its_cells() -> None:
    found = facts(SERVICES)
    assert {
        ("wikila", "BUILDS", "docker.io/wik/wikila:2.1", None),
        ("wikila", "BINDS", "0.0.0.0", 8300),
        ("wikila", "EXPOSES_ENDPOINT", "https://wikila.lab.net", None),
        ("wikila", "DEPENDS_ON", "wikila-postgres", None),
        ("blogger", "BUILDS", "ghcr.io/blg/blogger:9", None),
        ("blogger", "BINDS", "0.0.0.0", 9123),
    } <= found
    assert len(found) == 6, found


@pytest.mark.parametrize(
    ("row", "needed"),
    [
        ("exporter-a | Metrics for `cache-main`", False),
        ("scanner-a | Text recognition service for `cache-main`", False),
        ("depot | Database for `cache-main`", True),
        ("minio | Objects for `cache-main`", True),
    ],
)
def test_what_is_for_another_is_needed_by_it_only_as_a_store(row: str, needed: bool) -> None:
    text = f"# Stacks\n\n| Service | Purpose | Notes |\n|---|---|---|\n| {row} | None |\n| wiki | Pages | |\n"
    subject = row.partition(" ")[0]
    assert facts(text) == ({("cache-main", "DEPENDS_ON", subject, None)} if needed else set())


@pytest.mark.parametrize(
    ("header", "row"),
    [
        # The sockets of a switch, a column that names a port itself, a time of day, a quantity.
        ("Node | Switch | Port", "`box-one` | Core-24 | 14"),
        ("Host | Package | TCP 1514", "`box-one` | absent | timeout `124`"),
        ("Host | Port | Seen", "`box-one` | | 16:30"),
        ("Node | Memory", "`box-one` | 4 GB DDR4-2400 at 2133 MT/s"),
        # An address that something goes to, two records side by side, a version that runs nothing.
        ("Source | Check", "`box-one` | TCP to 192.168.73.2"),
        ("Host | Cache | Host | Cache", "`box-one` | 2 GB | `box-two` | 3 GB"),
        ("App | Running", "`box-one` | 5.2.3-libtorrent-2.0.13"),
        # How often something is done, and the first labels of host names.
        ("Every | Machine | Operation", "**5 min** | box-one | Alert rules are evaluated"),
        ("Service | Host", "Wikila | `notes.`"),
    ],
)
def test_numbers_and_names_that_are_no_ports_and_no_hosts(header: str, row: str) -> None:
    rule = "|".join("---" for _ in header.split("|"))
    assert facts(f"# House\n\n| {header} |\n|{rule}|\n| {row} |\n") == set()


@pytest.mark.parametrize(
    ("header", "rows", "stated"),
    [
        # What is struck out holds no more; a record of a zone; what a command asks; where a role leads to.
        (
            "Service | Port",
            ["~~wikila~~ | ~~8300~~", "notila | 8301"],
            {("notila", "BINDS", "0.0.0.0", 8301)},
        ),
        (
            "Type | URL",
            ["CNAME | https://pages.hearth.lan", "notila | https://notes.hearth.lan"],
            {("notila", "EXPOSES_ENDPOINT", "https://notes.hearth.lan", None)},
        ),
        (
            "Service | Check | Expected",
            [
                "wikila | `curl -I https://pages.hearth.lan` | 200",
                "notila | `https://notes.hearth.lan` | 200",
            ],
            {("notila", "EXPOSES_ENDPOINT", "https://notes.hearth.lan", None)},
        ),
        (
            "Name | IP | Role",
            ["wikila | 10.20.0.7 | Proxy → 10.20.0.9:8300"],
            {("wikila", "RESOLVES_TO", "10.20.0.7", None)},
        ),
        # A URL is no machine, and a sentence no network.
        (
            "Service | Kind | URL/Host",
            ["wikila | HTTP | https://10.20.0.9:8300/a", "notila | HTTP | shelf-1"],
            {
                ("wikila", "EXPOSES_ENDPOINT", "https://10.20.0.9:8300/a", None),
                ("notila", "RUNS", "shelf-1", None),
            },
        ),
        (
            "Host | Name | Purpose in the network",
            ["main | `wikila` | Keeps the pages that Notila shows"],
            set(),
        ),
    ],
)
def test_what_rows_state_by_what_their_cells_are(header: str, rows: list[str], stated: set[Fact]) -> None:
    rule = "|".join("---" for _ in header.split("|"))
    assert facts(f"# Services\n\n| {header} |\n|{rule}|\n" + "".join(f"| {r} |\n" for r in rows)) == stated


@pytest.mark.parametrize(
    ("path", "title", "states"),
    [
        ("docs/house.md", "House", True),
        ("docs/design.md", "Design", True),
        ("stacks/todo/README.md", "Lists", True),
        ("docs/specs/2026-02-03-wiki-design.md", "Wiki", False),
        ("docs/ip-plan.md", "Addressing plan", True),
        ("docs/plans/wiki.md", "Wiki", False),
        ("docs/house.md", "Roadmap", False),
    ],
)
def test_a_plan_states_nothing_of_what_there_is(path: str, title: str, states: bool) -> None:
    text = SERVICES.replace("House", title) + "\nBlogger listens on port 8300.\n"
    documents = [DocumentText(NodeRef("Document", ("house", path), path), text, "text/markdown")]
    for tier in (ProseExtractor(), RelationExtractor(1)):
        (found,) = tier.interpret(documents)
        assert any(e.type != "MENTIONS" for e in found.edges) is states, tier.name


def test_a_url_is_an_endpoint_and_no_service() -> None:
    row = "| Wikila Web | HTTP | `https://wikila.lab.net` |"
    text = f"# House\n\n| Name | Type | Target |\n|---|---|---|\n{row}\n"
    assert facts(text) == {("wikila-web", "EXPOSES_ENDPOINT", "https://wikila.lab.net", None)}


def test_a_table_of_the_settings_of_several_machines_places_none_on_another() -> None:
    rows = "| Name | `shelf` | `attic` |\n| OS | Debian 12 image | Debian 13 image |\n"
    assert facts(f"# House\n\n| Setting | shelf VM | attic VM |\n|---|---|---|\n{rows}") == set()


@pytest.mark.parametrize(
    "sentence",
    [
        "**`tank` is nearly full but `df` shows plenty on `attic`.**",
        "It `chown`s the folders of Wikila to `1000:1000`, the UID of the image.",
        "The proof: Vector scraped it, remote-wrote it, Prometheus stored it.",
        "[Wikila](https://wikila.dev) is reached on this VM's own address at port **8000**.",
        "Expect `200`, then search Kibana → Wikila for the id.",
    ],
)
def test_what_a_sentence_says_of_something_else_relates_nothing(sentence: str) -> None:
    assert facts(f"# House\n\n{sentence}\n") == set()


@pytest.mark.parametrize("others", [False, True], ids=["services", "files"])
def test_a_table_of_files_places_no_service(others: bool) -> None:
    files = "| bot.py | wiki machine |\n| `src/clock.py` | wiki machine |\n| entry.sh | wiki machine |\n"
    rows = "| wikila-api | shelf-1 |\n| wikila-web | shelf-1 |\n" + files * others
    found = facts(f"## Components\n\n| Component | Location |\n|---|---|\n{rows}")
    runs = {("wikila-api", "RUNS", "shelf-1", None), ("wikila-web", "RUNS", "shelf-1", None)}
    assert found == (set() if others else runs)


@pytest.mark.parametrize("changed", [False, True], ids=["each its own", "several of one"])
def test_what_a_table_tells_of_changed_files_it_does_not_tell_of_services(changed: bool) -> None:
    rows = "| depot | `api/news.py` (new) | Database for `cache-main` |\n"
    rows += "| depot | `api/pages.py` (new) | Prices |\n| depot | `app.py` | Mounts |\n" * changed
    rows += "| wiki | `wiki.py` | Pages |\n"
    text = f"# Stacks\n\n| Service | File | Purpose |\n|---|---|---|\n{rows}"
    assert facts(text) == (set() if changed else {("cache-main", "DEPENDS_ON", "depot", None)})


def test_a_table_in_html_is_read_as_one_in_markdown() -> None:
    text = (
        "<table>\n<tr><th>Service</th><th>Port</th></tr>\n"
        "<tr><td>Wikila</td><td>8300</td></tr>\n<tr><td>Blogger</td><td>9123</td></tr>\n</table>\n"
    )
    assert facts(text) == {("wikila", "BINDS", "0.0.0.0", 8300), ("blogger", "BINDS", "0.0.0.0", 9123)}
    (first, _) = (e for e in relations(text, "a.md"))
    assert "Wikila" in text[first.evidence.start : first.evidence.end]


@pytest.mark.parametrize(
    "text",
    [
        "| Port | Protocol | About |\n|---|---|---|\n| 465 | SMTPS | Mail with TLS |\n",
        "| Node | Role | Hardware |\n|---|---|---|\n| kube-1 | worker | Dell Optiplex, 32 GB RAM |\n",
        "| Service | Port | Testing required |\n|---|---|---|\n| Wikila | – | TLS needed |\n",
        "| Name | About |\n|---|---|\n| wikila_cache_drops_total | Writes that Redis dropped |\n",
        "| Variable | About |\n|---|---|\n| `API_URL` | Wikila endpoint (e.g. https://wikila:8006) |\n",
        "| Variable | About | Default |\n|---|---|---|\n| `DB_HOST` | Host of Postgres | `postgres:5432` |\n",
        "| Setting | Value |\n|---|---|\n| Image | `wik/wikila:2.1` |\n| Port | 8300 |\n",
        "| Aspect | Traefik | Caddy |\n|---|---|---|\n| Port | 8443 | 443 |\n",
        "Go to **Settings** → **Users** → **Add**\n",
        "- `wikila:1.9` → `wikila:2.0`\n",
        "1. Start Postgres → wait → start Wikila\n",
        "- Middleware: auth → ratelimit → headers\n",
        "Wikila does not depend on Redis.\n",
        "You can put Wikila behind nginx.\n",
        "If you enable search, Wikila needs Elasticsearch.\n",
        "- Documentation: https://docs.wikila.io\n",
        "## Bootstrap\n\n```\nwikila → kube-dns → mirror → cert-issuer → secrets-operator\n```\n",
        "Wikila runs on `postgres:15` → `postgres:16`\n",
        "- `dumps/wikila/[a].mkv` → `films/Wikila/one.mkv`\n",
        "- /srv/wikila/data → /mnt/backup/wikila\n",
        "```\nwikila.conf        ← Caddy: its own\n└── data/           ← Postgres\n```\n",
        "```\nwikila -> postgres: blocked\n```\n",
        "```mermaid\nflowchart LR\n  W[wikila] -. blocked .-> P[(postgres)]\n```\n",
        "```mermaid\ngraph TD\n  Issuer --> CertificateRequest\n  CertificateRequest --> Order\n```\n",
        "```mermaid\ngraph TD\n  H[Hypervisor host] --> V[VM 201]\n  V --> W[Wikila]\n```\n",
        "- Base URL: `http://10.1.2.3:11434`\n",
        "- Reach: any port (verified: `wikila` → `postgres` on `backend` = blocked/000).\n",
        "| Service | Image digest |\n|---|---|\n| wikila | `sha256:efb4959ef2c8…` |\n",
    ],
)
def test_settings_steps_menus_and_what_is_not_asserted_say_nothing(text: str) -> None:
    assert facts(text) == set()


def test_a_service_is_no_machine_of_its_containers() -> None:
    names = ["authelia", "wikila", "blogger", "nextcloud", "gitea", "forgejo", "immich", "navidrome"]
    names += ["paperless", "grafana"]
    rows = "".join(f"| **{n.title()}** | {n}, cache-{n} | proxy, {n} | Of the house |\n" for n in names)
    header = "| {} | Container(s) | Network(s) | Purpose |\n|---|---|---|---|\n"
    assert not {
        f for f in facts(f"#### Core Infrastructure\n\n{header.format('Service')}{rows}") if f[1] == "RUNS"
    }
    assert {
        f for f in facts(f"#### Core Infrastructure\n\n{header.format('Machine')}{rows}") if f[1] == "RUNS"
    }


def test_a_reply_is_no_connection_of_who_answers() -> None:
    asked = "  Wikila->>Postgres: query\n  Postgres-->>Wikila: rows\n"
    found = facts(f"# Flow\n\n```mermaid\nsequenceDiagram\n{asked}```\n")
    assert found == {("wikila", "CONNECTS_TO", "postgres", None)}


def test_arrows_relate_only_what_touches_them() -> None:
    found = facts("# Data flow\n\nCentralized logging via Promtail → Loki (kept for a week).\n")
    assert found == {("promtail", "CONNECTS_TO", "loki", None)}
    chain = facts("# Flow\n\n- MQTT flow: Zigbee2MQTT -> Mosquitto -> Home Assistant/Node-RED\n")
    assert {(s, e) for s, _, e, _ in chain} == {
        ("zigbee2mqtt", "mosquitto"),
        ("mosquitto", "home-assistant"),
        ("mosquitto", "node-red"),
    }


def test_nodes_of_a_diagram_are_called_by_their_labels() -> None:
    text = (
        "```mermaid\nflowchart LR\n  GW[API Gateway] --> AU[Auth Service]\n  AU --> PG[(Postgres)]\n"
        '  USER["LAN user"] --> GW\n```\n'
    )
    assert {(s, e) for s, _, e, _ in facts(text)} == {
        ("api-gateway", "auth-service"),
        ("auth-service", "postgres"),
    }


FLOWCHART = """```mermaid
%% Once: LD["Ledger
flowchart TB
    subgraph house["House
    compose.yaml"]
        WK["Wikila
        Pages [and notes] → PDF
        :8300"]
        AU("Auth Service
        Sessions")
        TR["Traefik v3.1.6<br/>Proxy"]
    end
    %% LD --> PM
    PM[Prometheus\\nMetrics] -->|Scrape| AU
    TR --> WK
    TR --> house
    Q{?} --> PM
```
"""


@pytest.mark.parametrize("text", [FLOWCHART, FLOWCHART.replace("\n", "\r\n")], ids=["LF", "CRLF"])
def test_nodes_of_a_flowchart_are_read_by_the_grammar_of_mermaid(text: str) -> None:
    """Text in quotes goes on over lines, its first line is the name and its arrows are text; a group is no
    end, nor is what has a text without letters; comments and versions name nothing."""
    assert facts(text) == {
        ("wikila", "BINDS", "0.0.0.0", 8300),
        ("prometheus", "CONNECTS_TO", "auth-service", None),
        ("traefik", "CONNECTS_TO", "wikila", None),
    }
    quotes = [text[e.evidence.start : e.evidence.end] for e in relations(text, "a.md") if e.type == "BINDS"]
    assert [q.split()[0] for q in quotes] == ['WK["Wikila'] and quotes[0].endswith(':8300"]')


def test_text_that_never_ends_leaves_the_lines_of_a_flowchart_as_they_are() -> None:
    drawn = '```mermaid\nflowchart LR\n  A[Wikila] --> B[Postgres]\n  C["Open\n```\n'
    text = drawn + "\n## Access\n\n- Grafana: http://grafana.localhost\n"
    assert facts(text) == {
        ("wikila", "CONNECTS_TO", "postgres", None),
        ("grafana", "EXPOSES_ENDPOINT", "http://grafana.localhost", None),
    }


@pytest.mark.parametrize(
    ("node", "served"),
    [
        ("D[(Postgres)]", {("wikila", "CONNECTS_TO", "postgres", None)}),
        ("D[(wikila-db)]", {("wikila", "CONNECTS_TO", "wikila-db", None)}),
        ("D[(Redis cache)]", {("wikila", "CONNECTS_TO", "redis-cache", None)}),
        ("D[(Wikila Database)]", set()),
        ('D@{ shape: cyl, label: "Wikila Certs/Logs" }', set()),
        ('D@{ shape: rect, label: "Postgres" }', {("wikila", "CONNECTS_TO", "postgres", None)}),
        ('D@{ shape: docs, label: "Postgres" }', set()),
        ("D{Postgres}", set()),
        ("D{Is port 8300 open}", set()),
        ('D["Redis & Postgres<br/>Stores"]', set()),
        ("D[Redis, Postgres]", set()),
        ("D[Redis Endpoint]", set()),
    ],
)
def test_shape_and_text_of_a_node_say_what_is_no_service(node: str, served: set[Fact]) -> None:
    assert facts(f"```mermaid\nflowchart LR\n  A[Wikila] --> {node}\n```\n") == served


@pytest.mark.parametrize(
    "text", ["./data/wikila/<br/>wiki.lan", "HTTP/HTTPS<br/>:80", "Wikila<br/>wiki.DOMAIN"]
)
def test_a_node_that_is_a_path_or_a_protocol_is_no_service(text: str) -> None:
    assert facts(f'```mermaid\nflowchart LR\n  A["{text}"]\n```\n') == set()


@pytest.mark.parametrize(
    ("label", "ends"),
    [
        ("reads", ("wikila", "prometheus")),
        ("fetched by cron", ("wikila", "prometheus")),
        ("scraped by", ("prometheus", "wikila")),
    ],
)
def test_a_passive_on_an_arrow_turns_it_round(label: str, ends: tuple[str, str]) -> None:
    drawn = f"```mermaid\ngraph TD\n  W[Wikila] -->|{label}| P[Prometheus]\n```\n"
    assert facts(drawn) == {(ends[0], "CONNECTS_TO", ends[1], None)}


@pytest.mark.parametrize("order", ["", "startup "])
def test_an_arrow_of_the_order_of_dependencies_is_no_connection(order: str) -> None:
    names = ["Traefik", "Grafana", "Prometheus", "Postgres", "Redis", "Loki", "Authelia", "Gitea", "Immich"]
    list_of = "".join(f"- **{name}**: http://{name.lower()}.localhost\n" for name in names)
    drawn = "".join(f"  Traefik --> {name}\n" for name in names[1:])
    said = f"## Service dependencies\n\nThis diagram shows the {order}dependencies.\n\n"
    found = facts(f"# Access\n\n{list_of}\n{said}```mermaid\ngraph TD\n{drawn}```\n")
    ends = {end for start, kind, end, _ in found if kind == "CONNECTS_TO" and start == "traefik"}
    assert ends == (set() if order else {name.lower() for name in names[1:]})


def test_an_arrow_in_a_message_is_text() -> None:
    asked = "  Wikila->>Neo4j: MERGE (a)-[r:HAS]->(b)\n  Neo4j-->>Wikila: rows\n"
    found = facts(f"# Flow\n\n```mermaid\nsequenceDiagram\n{asked}```\n")
    assert found == {("wikila", "CONNECTS_TO", "neo4j", None)}


def test_a_drawing_in_a_page_is_read_as_one_in_a_fence() -> None:
    text = '<pre class="mermaid">\nflowchart LR\n  A[Wikila] --> B[(Postgres)]\n</pre>\n\nMore of Wikila.\n'
    assert facts(text) == {("wikila", "CONNECTS_TO", "postgres", None)}


def test_items_name_their_address() -> None:
    text = "## Access\n\n- Grafana: http://grafana.localhost\n- **Wikila** (Port 5300) - notes\n"
    assert facts(text) == {
        ("grafana", "EXPOSES_ENDPOINT", "http://grafana.localhost", None),
        ("wikila", "BINDS", "0.0.0.0", 5300),
    }


def test_a_file_with_a_line_is_no_host_and_a_host_of_a_country_is() -> None:
    text = "## Access\n\n`{}:30,84` — even so, the Wikila API exposes all of it.\n"
    assert facts(text.format("wikila.extra.yml")) == set()
    assert facts(text.format("wikila.house.sh")) == {("wikila-api", "BINDS", "wikila.house.sh", 30)}


def test_evidence_is_an_exact_slice_and_every_claim_fits_the_model() -> None:
    text = "Ein Wort \U0001f600 davor.\n\n" + SERVICES.replace("\n", "\r\n")
    found = relations(text, "a.md")
    assert len(found) == 6
    for edge in found:
        for node in (edge.start, edge.end):
            check_node(node.label, node.key, {})
        check_edge(edge.type, edge.start.label, edge.end.label, dict(edge.properties), edge.confidence)
        quote = text[edge.evidence.start : edge.evidence.end]
        assert quote.startswith("|") and quote.endswith("|") and "\n" not in quote
        for basis, node in ((edge.start_basis, edge.start), (edge.end_basis, edge.end)):
            assert basis is not Basis.BYTES or node.name in quote


def test_what_is_said_has_the_measured_precision_of_its_form_as_confidence() -> None:
    confidence = {
        e.method: e.confidence
        for e in relations(SERVICES + "\nWikila listens on port 8300.\n", "a.md", STRUCTURED | SENTENCES)
    }
    assert confidence["prose_table"] > 0.85 and all(0.5 < c < 1 for c in confidence.values())


@pytest.mark.parametrize(
    "text",
    [
        "| Service | Port |\n|---|---|\n" + "".join(f"| svc-{n} | {1024 + n} |\n" for n in range(10_000)),
        "| Service | Port |\n|---|---|\n| Wikila | " + "x 8300 " * 150_000 + " |\n",
        "".join("  " * depth + f"- level {depth} `svc{depth}` on port 80{depth:02}\n" for depth in range(30)),
        "| Service | Port |\n|---|---|\n",
        "| Service | Port |\n|---|---|",
        "|" * 5000 + "\n" + "|-" * 5000 + "|\n" + "|" * 5000,
        "a" + "-" * 100_000 + ">" + "`" * 50_000,
        "<table" * 20_000,
        "[" * 50_000 + "](" * 50_000,
        "```mermaid\ngraph TD\n" + 'A["b\n' * 20_000 + "x@{" * 600 + "\n" + "a-" * 900 + '[(">{' * 400,
        "**" * 50_000 + "\n" + "_" * 50_000,
        "## \u05e9\u05d9\u05e8\n\n| \u05e9\u05d9\u05e8 | Port |\n|---|---|\n| Wikila | 8300 |\n",
        "# \u670d\u52a1\n\nNginx \u76d1\u542c\u7aef\u53e3 80\uff0c\u8f6c\u53d1\u5230 Wikila\u3002" * 2000,
    ],
    ids=[
        "rows",
        "megabyte",
        "nested",
        "header",
        "headless",
        "bars",
        "dashes",
        "tags",
        "links",
        "nodes",
        "marks",
        "rtl",
        "chinese",
    ],
)
def test_bad_input_is_read_in_bounded_time(text: str) -> None:
    began = time.process_time()
    found = relations(text, "a.md", STRUCTURED | SENTENCES)
    assert time.process_time() - began < 20
    for edge in found:
        assert 0 <= edge.evidence.start < edge.evidence.end <= len(text)


def test_every_row_of_a_long_table_is_read() -> None:
    text = "| Service | Port |\n|---|---|\n" + "".join(f"| svc-{n} | {1024 + n} |\n" for n in range(2_000))
    assert len(relations(text, "a.md")) == 2_000


_PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "| ",
                " |",
                "---|",
                "\n",
                "\n\n",
                "- ",
                "**",
                "`",
                "Redis ",
                "http://a:80 ",
                "port 80 ",
                " → ",
                "[a](b)",
                "# ",
                "<td>",
            ]
        ),
        st.text(max_size=6),
    ),
    max_size=40,
).map("".join)


@settings(max_examples=150, deadline=None)
@example("0\x1f\n| ")  # what Unicode takes for a blank is one too
@given(_PIECES)
def test_any_text_is_cut_into_slices_of_itself(text: str) -> None:
    for piece in segments(text):
        for one in (piece.text, *piece.cells):
            assert 0 <= one.start <= one.end <= len(text)
            for at, character in enumerate(one.plain):
                start, end = one.place(at, at + 1)
                assert one.start <= start < end <= max(one.end, start + 1)
                if not text[start].isspace() and text[start] not in "\\&<>":
                    assert character == text[start]
    for edge in relations(text, "a.md", STRUCTURED | SENTENCES):
        assert 0 <= edge.evidence.start < edge.evidence.end <= len(text)


def test_marks_are_left_out_and_places_kept() -> None:
    source = "See **[Wiki](x.md)** on `port 80` &amp; <https://a.b>"
    text = read_text(source, 0, len(source))
    assert text.plain == "See Wiki on port 80 & https://a.b"
    at = text.plain.index("Wiki")
    assert source[slice(*text.place(at, at + 4))] == "Wiki"
    assert {text.plain[s:e] for s, e, _ in text.marks} == {"Wiki", "port 80"}


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        ("*Note* this and a*b*c", "Note this and abc"),
        ("image:1*0", "image:1*0"),
        ("2 * 3, *.lan and *.home", "2 * 3, *.lan and *.home"),
        ("* x *y*", "* x y"),
        ("*all of **this** here* x*y", "all of this here x*y"),
    ],
)
def test_an_asterisk_that_begins_no_emphasis_stays(source: str, plain: str) -> None:
    assert read_text(source, 0, len(source)).plain == plain
