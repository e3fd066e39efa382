"""What sentences assert, by relation, and what they do not."""

from __future__ import annotations

import pytest

from taboot_pipelines.extraction.tier_b import Prose, assertions

#: Sentences of our own, and the (relation, start, end) that each asserts.
ASSERTED = [
    ("Paperless, Nextcloud and the Redis exporter depend on Redis.", "DEPENDS_ON", "Paperless", "Redis"),
    ("Paperless, Nextcloud and Gitea depend on Redis.", "DEPENDS_ON", "Gitea", "Redis"),
    ("Immich stores its data in Postgres.", "DEPENDS_ON", "Immich", "Postgres"),
    ("Grafana uses Postgres.", "DEPENDS_ON", "Grafana", "Postgres"),
    (
        "This application is dependent on an ElasticSearch instance.",
        "DEPENDS_ON",
        "diskover",
        "ElasticSearch",
    ),
    ("An external postgres database is required.", "DEPENDS_ON", "diskover", "postgres"),
    ("Traefik forwards requests for `git.example.org` to Gitea.", "ROUTES_TO", "Traefik", "Gitea"),
    ("Nginx proxies `/api` to the backend service.", "ROUTES_TO", "Nginx", "backend"),
    ("Vaultwarden is only reachable through Caddy.", "ROUTES_TO", "Caddy", "Vaultwarden"),
    ("Grafana queries Prometheus and Loki.", "CONNECTS_TO", "Grafana", "Loki"),
    ("Prometheus scrapes node-exporter.", "CONNECTS_TO", "Prometheus", "node-exporter"),
    ("`nas.lan` resolves to 192.168.1.5.", "RESOLVES_TO", "nas.lan", "192.168.1.5"),
    ("Bazarr is built on ghcr.io/acme/base:3.19.", "BUILDS", "Bazarr", "ghcr.io/acme/base:3.19"),
    ("Authelia listens on port 9091.", "EXPOSES_ENDPOINT", "Authelia", "9091"),
    (
        "Authelia is at https://auth.hearth.example.",
        "EXPOSES_ENDPOINT",
        "Authelia",
        "https://auth.hearth.example",
    ),
    ("Access the webui at `<your-ip>:7878`.", "EXPOSES_ENDPOINT", "diskover", "<your-ip>:7878"),
    (
        "Open `http://localhost:81` to see the Heimdall interface.",
        "EXPOSES_ENDPOINT",
        "Heimdall",
        "http://localhost:81",
    ),
    (
        "Access the web UI for Miniflux at `http://<your-ip>:8080`.",
        "EXPOSES_ENDPOINT",
        "Miniflux",
        "http://<your-ip>:8080",
    ),
    (
        "Access the web interface at `<your-ip>:9117` and connect Sonarr there.",
        "EXPOSES_ENDPOINT",
        "diskover",
        "<your-ip>:9117",
    ),
    (
        "There is no password for the GUI, reachable at `http://yourhost:8080/`.",
        "EXPOSES_ENDPOINT",
        "diskover",
        "http://yourhost:8080/",
    ),
    ("Port 8086 is used by InfluxDB.", "EXPOSES_ENDPOINT", "InfluxDB", "8086"),
    ("This service exposes the echoserver application on port 80.", "EXPOSES_ENDPOINT", "echoserver", "80"),
    ("Compose maps port 80 of the web container to port 8080 of the host.", "BINDS", "web", "host"),
    ("The Gitea container port 3000 is mapped to port 3001 on nas.lan.", "BINDS", "Gitea", "nas.lan"),
    ("Compose maps the web service container port 80 to port 81 of the host.", "BINDS", "web", "host"),
    ("Host port 8055 is forwarded to port 5055 in the container.", "BINDS", "diskover", "Host"),
    # What a word in a list or after "and" is said of.
    ("Grafana - dashboards, http://localhost:3000", "EXPOSES_ENDPOINT", "Grafana", "http://localhost:3000"),
    ("Prometheus at http://localhost:9090", "EXPOSES_ENDPOINT", "Prometheus", "http://localhost:9090"),
    ("nginx: public entrypoint on port 8080", "EXPOSES_ENDPOINT", "nginx", "8080"),
    ("Loki listens on port 3100, the `web` service on port 80.", "EXPOSES_ENDPOINT", "web", "80"),
    ("HTTP on port 3000 serves Kavita.", "EXPOSES_ENDPOINT", "Kavita", "3000"),
    ("Jellyfin listens on UDP 5514, TCP 6601 and TLS 6514.", "EXPOSES_ENDPOINT", "Jellyfin", "6514"),
    ("The container listens on 8058/tcp.", "EXPOSES_ENDPOINT", "diskover", "8058"),
    ("Authelia guards all of it and stores its sessions in Redis.", "DEPENDS_ON", "Authelia", "Redis"),
    ("nginx serves the files and proxies `/api` to the `api` service.", "ROUTES_TO", "nginx", "api"),
    ("`a.lan` resolves to 10.0.0.1, `b.lan` to 10.0.0.2.", "RESOLVES_TO", "b.lan", "10.0.0.2"),
    ("The ingress controller needs information from Consul.", "DEPENDS_ON", "ingress controller", "Consul"),
    # Orders after a clause of time, to see what is there.
    (
        "After the stack starts, open Kibana at `http://localhost:5601`.",
        "EXPOSES_ENDPOINT",
        "Kibana",
        "http://localhost:5601",
    ),
    (
        "After the application starts, visit `http://localhost:9000` to access the Portainer UI.",
        "EXPOSES_ENDPOINT",
        "Portainer UI",
        "http://localhost:9000",
    ),
    (
        "The web UI is at `<your-ip>:8080`, log in and point Sonarr to it.",
        "EXPOSES_ENDPOINT",
        "diskover",
        "<your-ip>:8080",
    ),
    ("This image is based on the metricbeat image.", "BUILDS", "diskover", "metricbeat"),
]

#: Sentences that relate the same things and assert nothing.
NOT_ASSERTED = [
    "Immich no longer needs Typesense.",
    "Grafana does not use Postgres.",
    "If you run Plex, Tautulli connects to Plex.",
    "Could Grafana talk to Loki?",
    "You can use Traefik to route requests to Gitea.",
    "Gitea may connect to Postgres or to MySQL.",
    "Install Redis and point Paperless at it.",
    "Set `DB_HOST` to `postgres:5432`.",
    "For example, Nextcloud connects to MariaDB.",
    "We recommend that Nextcloud uses MariaDB.",
    "For more information see https://docs.example.org:8080/guide.",
    "Configure the exporter to push to `http://loki:3100`.",
    "12.03.24: - Grafana uses Postgres.",
    "Grafana uses `find_dotenv` to read its settings.",
    "Grafana is backed by Astral.",
    "This service exposes the shopfront application on port 80.",
    "This guide describes how to deploy CoreDNS backed by etcd.",
    "Should you use host networking, the admin page is found on port 81.",
    "The shop is available on PyPI: https://pypi.org/project/shop.",
    "Unless Traefik forwards requests to Gitea, nothing works.",
    "Make sure that nothing else listens on port 8080.",
    "Results are stored in a SQLite database by default.",
    "It syncs the AdGuardHome at http://192.168.1.2:3000 to the replica at http://192.168.1.3:3000.",
    "Metrics for Prometheus are exposed on port 9100.",
    "On the router, we'll forward port 443 to our server.",
    "In this guide we'll map port 80 of the web container to port 8080 of the host.",
    "nginx forwards requests to the right backend service.",
    "It requires a MySQL/MariaDB database.",
    "Grafana uses the Plex API.",
    "This image uses nginx to serve the files.",
    "Home Assistant connects to a broker on port 1883.",
    "When host networking is used, the web interface is on port 5055.",
    "With `--net=host` the webui is at `http://localhost:8080`.",
    "The webui must be served at https://auth.example.org.",
    "The app was exposed on port 5000, so I opened it.",
    "Then open your browser and go to http://127.0.0.1:5000",
    "To verify that it works, visit http://localhost:5055/health.",
    "Start a Postgres container that listens on port 5432.",
    "The Kubernetes dashboard is at http://localhost:8443.",
    "Grafana could run on port 80 too, or on port 3000.",
]


def _found(sentence: str) -> set[tuple[str, str, str]]:
    prose = Prose("a.md", f"# linuxserver/diskover\n\n## Setup\n\n{sentence}\n")
    return {(a.triple.type, a.triple.start.text, a.triple.end.text) for a in assertions([prose])}


@pytest.mark.parametrize(("sentence", "relation", "start", "end"), ASSERTED)
def test_what_a_sentence_asserts_is_found(sentence: str, relation: str, start: str, end: str) -> None:
    assert (relation, start, end) in _found(sentence)


@pytest.mark.parametrize("sentence", NOT_ASSERTED)
def test_what_is_denied_supposed_asked_or_advised_is_not(sentence: str) -> None:
    assert _found(sentence) == set()


@pytest.mark.parametrize(
    "text",
    [
        "# Upgrade Gitea\n\nWait for the line that says the web server listens on port 3000.\n",
        "# Installing Grist\n\nThe web interface is at http://localhost:8484.\n",
        "# Runner\n\nIt connects to `http://gitea:3000`.\n",
        "# Names\n\nThe wildcard `*.int.hearth.lan` already points to 192.168.20.11.\n",
        "# Guide\n\nThe web server keeps its sessions in cache and listens on port 8080.\n",
    ],
)
def test_a_title_that_describes_and_what_only_leads_elsewhere_name_nothing(text: str) -> None:
    assert list(assertions([Prose("a.md", text)])) == []


@pytest.mark.parametrize("heading", ["Changelog", "v1.24.0", "Release notes", "[2.1.0] - 2024-05-01"])
def test_what_changed_once_is_not_so_now(heading: str) -> None:
    text = f"# Gitea\n\n## {heading}\n\nGitea uses Redis.\n"
    assert list(assertions([Prose("a.md", text)])) == []


def test_names_in_a_list_are_read_in_order_where_the_grammar_errs() -> None:
    text = (
        "# Data\n\nGrafana queries Prometheus for metrics and Loki for logs."
        " `web` uses Redis, and `api` does not.\n"
    )
    found = {
        (a.triple.type, a.triple.start.text, a.triple.end.text) for a in assertions([Prose("a.md", text)])
    }
    assert found == {
        ("CONNECTS_TO", "Grafana", "Prometheus"),
        ("CONNECTS_TO", "Grafana", "Loki"),
        ("DEPENDS_ON", "web", "Redis"),
    }
