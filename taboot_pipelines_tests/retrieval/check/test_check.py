"""A check makes the graph that an ingest would, tells what a change breaks, and tells nothing where it breaks
nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from taboot_pipelines.knowledge.interpretation import Interpreter
from taboot_pipelines.knowledge.runs import Outcome
from taboot_pipelines.retrieval.check import states
from taboot_pipelines.retrieval.check.checker import Checker
from taboot_pipelines.retrieval.check.problems import RULES
from taboot_pipelines.retrieval.check.sides import Side
from taboot_pipelines.retrieval.check.states import Files, Held, Reader, files_of
from taboot_pipelines.retrieval.check.written import markdown, sarif
from taboot_pipelines.retrieval.results.check import CheckReport
from taboot_pipelines.settings import Settings, load_settings
from taboot_pipelines.sources.sources_file import parse_entry
from taboot_pipelines.stages.workspace import Entry
from taboot_pipelines.stores.blobs import BlobStore
from taboot_pipelines.stores.catalog.locators import Locator
from taboot_pipelines_tests.world import World

SHOP = """
services:
  web:
    image: nginx:1.27
    ports: ["8080:80"]
    networks: [front]
    volumes: ["pages:/usr/share/nginx/html"]
    environment:
      DATABASE_URL: postgresql://u@db:5432/shop
      MODE: ${MODE}
    depends_on:
      db: {condition: service_healthy}
  db:
    image: postgres:16
    networks: [front]
  admin:
    image: adminer:4
    ports: ["8081:8080"]
    networks: [front]
networks:
  front:
volumes:
  pages:
"""
PROXY = """
server {
  server_name shop.example.org;
  location / { proxy_pass http://web:80; }
}
"""
BLOG = """
services:
  blog:
    image: ghost:5
    networks: [shop_front]
    environment:
      CACHE: redis://shop-cache:6379
networks:
  shop_front:
    external: true
"""
WIKI = "[Container]\nImage=wiki:1\nContainerName=wiki\nNetwork=house.network:ip=172.30.0.8\n"
TASKS = """[Unit]
Requires=wiki.service
[Container]
Image=tasks:1
ContainerName=tasks
Network=house.network:ip=172.30.0.9
Environment=WIKI_URL=http://wiki:8080
"""
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData:\n  word: correct-horse-9\n"
INGRESS = """apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: way}
spec:
  tls: [{hosts: [b.example.org], secretName: a}]
  rules:
    - {host: b.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: agent}}}]}}
"""
GATE = """
services:
  traefik:
    image: traefik:3
    command: [--providers.docker.exposedbydefault=false, "--entrypoints.web.address=:80"]
  door: {image: door:1, labels: [traefik.enable=true, traefik.http.services.d.loadbalancer.server.port=9091]}
  loft:
    image: loft:1
    labels:
      - traefik.enable=true
      - traefik.docker.network=gate_default
      - traefik.http.routers.loft.rule=Host(`loft.example.org`)
      - traefik.http.routers.loft.middlewares=check@file
  attic:
    image: attic:1
    labels: [traefik.enable=true, traefik.http.routers.attic.rule=Host(`attic.example.org`)]
"""
CHECK = "http: {middlewares: {check: {forwardAuth: {address: 'http://door:9091/check'}}}}\n"
GATED = {"gate/compose.yaml": GATE, "k8s/dynamic.yaml": CHECK}
README = "# Shop\n\nThe web server runs `nginx:1.27`.\n\n| service | port |\n| --- | --- |\n| web | 8080 |\n"
MORE = "services: {more: {extends: {file: linked.yaml, service: base}, env_file: [x.env]}}\n"
HOUSE = {
    "shop/compose.yaml": SHOP,
    "blog/compose.yaml": BLOG,
    "proxy/shop.conf": PROXY,
    "shop/README.md": README,
    "wiki.container": WIKI,
    "tasks.container": TASKS,
    "house.network": "[Network]\nNetworkName=house\n",
    "k8s/way.yaml": INGRESS,
}
ENV = {"shop/.env": "MODE=live\n"}


def entries(root: Path) -> list[Entry]:
    declared = (
        {"id": "stacks", "type": "compose", "path": ".", "host": "nas"},
        {"id": "proxy", "type": "swag", "path": "proxy"},
        {"id": "notes", "type": "files", "path": ".", "include": ["*.md"]},
        {
            "id": "units",
            "type": "files",
            "path": ".",
            "include": ["*.container", "*.network", "k8s/*.yaml"],
            "interpret": True,
        },
    )
    return [Entry("default", e["id"], "active", parse_entry(e), root) for e in declared]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(home=tmp_path / "home", sources=tmp_path / "none.yaml")


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def check(
    settings: Settings, root: Path, files: Mapping[str, str | None], more: Mapping[str, str] | None = None
) -> CheckReport:
    """The house, checked with some files otherwise; None: without it. ``more``: what it has beside."""
    house = root / "house"
    write(house, {**HOUSE, **ENV, **(more or {})})
    checker = Checker(settings)
    before = checker.side([files_of(e, f"/{e.config.path}", settings) for e in entries(house)])
    write(house, {name: text for name, text in files.items() if text is not None})
    for name, text in files.items():
        if text is None:
            (house / name).unlink()
    after = checker.side([files_of(e, f"/{e.config.path}", settings) for e in entries(house)])
    return checker.check(before, after)


def told(report: CheckReport) -> set[tuple[str, str, int]]:
    return {(p.rule, p.file, p.line) for p in report.problems}


def line(text: str, words: str) -> int:
    return next(n for n, one in enumerate(text.split("\n"), 1) if words in one)


def shop(old: str, new: str) -> str:
    assert old in SHOP
    return SHOP.replace(old, new)


def admin(setting: str) -> dict[str, str | None]:
    """The shop where a service says one thing more."""
    return {"shop/compose.yaml": shop("image: adminer:4", f"image: adminer:4\n    {setting}")}


HEALTHY = shop("image: postgres:16", "image: postgres:16\n    healthcheck: {test: pg_isready}")
LOCKED = PROXY.replace("proxy_pass", "auth_basic on; auth_basic_user_file users; proxy_pass")
SECURED = PROXY.replace("server_name", "listen 443 ssl; server_name")
LISTENING = shop("image: postgres:16", "image: postgres:16\n    ports: ['127.0.0.1:5432:5432']")
SCRAPED = "scrape_configs:\n  - job_name: web\n    static_configs: [{targets: ['web:80']}]\n"
ALERTS = 'groups:\n  - name: a\n    rules: [{alert: Down, expr: "up{job=\\"web\\"} == 0"}]\n'
BACKUP = "services:\n  kopia:\n    image: kopia/kopia:1\n    volumes: [shop-data:/data]\n"
KEPT = shop("image: postgres:16", "image: postgres:16\n    volumes: [shop-data:/var/lib/postgresql/data]")
#: {rule: (what the house has beside, files otherwise, where it is told, what the statement holds)}
LOSING: dict[str, tuple[dict[str, str], dict[str, str | None], tuple[str, str, str]]] = {
    "connection_port": (
        {"shop/compose.yaml": LISTENING},
        {"shop/compose.yaml": LISTENING.replace("@db:5432", "@db:5433").replace(":5432:", ":5433:")},
        ("shop/compose.yaml", "@db:5433", "asks service shop/db for port 5433, and for 5432 before"),
    ),
    "healthy-without-check": (
        {"shop/compose.yaml": HEALTHY},
        {"shop/compose.yaml": SHOP},
        ("shop/compose.yaml", "condition: service_healthy", "shop/web: It waits until shop/db is healthy"),
    ),
    "no-restart-policy": (
        {"shop/compose.yaml": str(admin("restart: always")["shop/compose.yaml"])},
        {"shop/compose.yaml": SHOP},
        ("shop/compose.yaml", "adminer", "shop/admin"),
    ),
    "unit-without-restart": (
        {"wiki.container": f"{WIKI}[Service]\nRestart=always\n"},
        {"wiki.container": WIKI},
        ("wiki.container", "Image", "wiki"),
    ),
    "alert-on-unknown-job": (
        {"k8s/prometheus.yaml": SCRAPED, "k8s/alerts.yaml": ALERTS},
        {"k8s/prometheus.yaml": SCRAPED.replace("job_name: web", "job_name: site")},
        ("k8s/alerts.yaml", "alert: Down", "job web"),
    ),
    "volume-without-backup": (
        {"shop/compose.yaml": KEPT, "keep/compose.yaml": BACKUP},
        {"keep/compose.yaml": BACKUP.replace("shop-data", "other-data")},
        ("shop/compose.yaml", "shop-data", "shop/db"),
    ),
    "privileged": ({}, admin("privileged: true"), ("shop/compose.yaml", "privileged", "shop/admin")),
    "container-socket": (
        {},
        admin("volumes: [/run/docker.sock:/run/docker.sock]"),
        ("shop/compose.yaml", "docker.sock", "shop/admin"),
    ),
    "strong-capability": ({}, admin("cap_add: [SYS_ADMIN]"), ("shop/compose.yaml", "cap_add", "SYS_ADMIN")),
    "host-namespace": ({}, admin("pid: host"), ("shop/compose.yaml", "pid:", "shop/admin")),
    "confinement-off": (
        {},
        admin("security_opt: ['seccomp:unconfined']"),
        ("shop/compose.yaml", "unconfined", "shop/admin"),
    ),
    "system-mounted": ({}, admin("volumes: ['/etc:/host']"), ("shop/compose.yaml", "/etc:", "shop/admin")),
    "route-without-login": (
        {"proxy/shop.conf": LOCKED},
        {"proxy/shop.conf": PROXY},
        ("proxy/shop.conf", "proxy_pass", "shop.example.org: The proxy leads to web"),
    ),
    "login_gone": (
        GATED,
        {"k8s/dynamic.yaml": CHECK.replace("9091", "9092")},
        ("k8s/dynamic.yaml", "9092", "gate/door does not listen: it was 9091"),
    ),
    "route-twice": (
        GATED,
        {"gate/compose.yaml": GATE.replace("Host(`attic.", "Host(`loft.")},
        ("gate/compose.yaml", "attic.rule", "It leads to attic and loft"),
    ),
    "router-not-taken": (
        GATED,
        {"gate/compose.yaml": GATE.replace("      - traefik.enable=true\n", "")},
        ("gate/compose.yaml", "loft.rule", "gate/loft: Its labels have a router"),
    ),
    "network-of-no-name": (
        GATED,
        {"gate/compose.yaml": GATE.replace("network=gate_default", "network=gate_defualt")},
        ("gate/compose.yaml", "gate_defualt", "its networks are gate_default"),
    ),
    "login-passed-by": (
        {"proxy/shop.conf": LOCKED, "shop/compose.yaml": shop('    ports: ["8080:80"]\n', "")},
        {"shop/compose.yaml": SHOP},
        ("shop/compose.yaml", "8080:80", "shop/web"),
    ),
    "store-published": (
        {},
        {"shop/compose.yaml": shop("image: postgres:16", "image: postgres:16\n    ports: ['5432:5432']")},
        ("shop/compose.yaml", "5432:5432", "shop/db"),
    ),
    "route-without-tls": (
        {"proxy/shop.conf": SECURED},
        {"proxy/shop.conf": PROXY},
        ("proxy/shop.conf", "proxy_pass", "shop.example.org: The proxy leads to web without TLS"),
    ),
    "tls-not-verified": (
        {"k8s/prometheus.yaml": SCRAPED},
        {"k8s/prometheus.yaml": f"{SCRAPED}    tls_config: {{insecure_skip_verify: true}}\n"},
        ("k8s/prometheus.yaml", "insecure", "insecure_skip_verify is true"),
    ),
}
#: {rule: (files otherwise, where it is told, what the statement holds)}
BREAKING: dict[str, tuple[dict[str, str | None], tuple[str, str, str]]] = {
    "port_taken": (
        {"shop/compose.yaml": shop("8081:8080", "8080:8080")},
        ("shop/compose.yaml", "8080:8080", "shop/admin and shop/web publish 8080"),
    ),
    "route_port": (
        {"proxy/shop.conf": PROXY.replace("web:80", "web:8080")},
        ("proxy/shop.conf", "web:8080", "published port"),
    ),
    "upstream_gone": (
        {"proxy/shop.conf": PROXY.replace("web:80", "nowhere:80")},
        ("proxy/shop.conf", "nowhere", "nowhere"),
    ),
    "dependency_gone": (
        {"shop/compose.yaml": shop("  db:\n    image", "  database:\n    image")},
        ("shop/compose.yaml", "condition: service_healthy", "service web, depends_on"),
    ),
    "name_unreachable": (
        {
            "shop/compose.yaml": shop(
                "networks: [front]\n  admin", "container_name: shop-db\n    networks: [back]\n  admin"
            )
            .replace("networks:\n  front:", "networks:\n  back:\n  front:")
            .replace("      DATABASE_URL: postgresql://u@db:5432/shop\n", ""),
            "blog/compose.yaml": BLOG.replace("redis://shop-cache:6379", "postgresql://u@shop-db:5432/blog"),
        },
        ("blog/compose.yaml", "shop-db", "blog/blog asks for shop/db"),
    ),
    "network_gone": (
        {"shop/compose.yaml": shop("networks:\n  front:\n", "")},
        ("shop/compose.yaml", "networks: [front]", "service web, networks"),
    ),
    "volume_gone": (
        {"shop/compose.yaml": shop("volumes:\n  pages:\n", "")},
        ("shop/compose.yaml", "pages:/usr", "service web, volumes"),
    ),
    "file_gone": (
        {
            "shop/compose.yaml": shop(
                "    image: postgres:16", "    image: postgres:16\n    env_file: [secrets.list]"
            )
        },
        ("shop/compose.yaml", "secrets.list", "secrets.list"),
    ),
    "variable_undefined": (
        {"shop/.env": ""},
        ("shop/compose.yaml", "${MODE}", "MODE is used, and nothing sets it"),
    ),
    "image_unpinned": (
        {"shop/compose.yaml": shop("adminer:4", "adminer")},
        ("shop/compose.yaml", "image: adminer", "shop/admin uses adminer"),
    ),
    "document_contradicted": (
        {"shop/compose.yaml": shop("nginx:1.27", "nginx:1.28")},
        ("shop/README.md", "nginx:1.27", "1.28"),
    ),
    "secret-in-plain": (
        {"shop/compose.yaml": shop("MODE: ${MODE}", "DB_PASSWORD: correct-horse-battery")},
        ("shop/compose.yaml", "DB_PASSWORD", "shop/web"),
    ),
    "secret-in-manifest": (
        {"k8s/app.yaml": SECRET},
        ("k8s/app.yaml", "word", "Secret a"),
    ),
    "login-switched-off": (
        {"shop/compose.yaml": shop("MODE: ${MODE}", "GF_AUTH_ANONYMOUS_ENABLED: 'true'")},
        ("shop/compose.yaml", "ANONYMOUS", "shop/web"),
    ),
    "dashboard-open": (
        {
            "blog/compose.yaml": BLOG.replace(
                "ghost:5", "traefik:3\n    ports: ['8090:8080']\n    command: [--api.insecure=true]"
            )
        },
        ("blog/compose.yaml", "insecure", "blog"),
    ),
    "certificate-without-host": (
        {"k8s/way.yaml": INGRESS.replace("hosts: [b", "hosts: [c")},
        ("k8s/way.yaml", "- {host", "Ingress way"),
    ),
    "container-name-twice": (
        {"wiki.container": WIKI.replace("=wiki", "=tasks"), "tasks.container": TASKS},
        ("tasks.container", "ContainerName", "tasks"),
    ),
    "address-twice": (
        {"wiki.container": WIKI.replace("30.0.8", "30.0.9"), "tasks.container": TASKS},
        ("tasks.container", "Network=", "172.30.0.9"),
    ),
    "dependency-cycle": (
        {"shop/compose.yaml": shop("image: postgres:16", "image: postgres:16\n    depends_on: [web]")},
        ("shop/compose.yaml", "depends_on: [web]", "shop"),
    ),
    "socket-published": (
        {
            "shop/compose.yaml": shop(
                "image: postgres:16",
                "image: postgres:16\n    volumes: ['/run/docker.sock:/s']\n    ports: ['2375:2375']",
            )
        },
        ("shop/compose.yaml", "ports: ['2375", "every address port 2375"),
    ),
    "unreadable": (
        {"shop/compose.yaml": shop("services:", "services: [")},
        ("shop/compose.yaml", "", "YAML"),
    ),
}


@pytest.mark.parametrize("rule", sorted(RULES))
def test_what_a_change_breaks_is_told_at_its_line(rule: str, settings: Settings, tmp_path: Path) -> None:
    more, files, (file, at, words) = LOSING[rule] if rule in LOSING else ({}, *BREAKING[rule])
    report = check(settings, tmp_path, files, more)
    found = [p for p in report.problems if p.rule == rule and p.file == file]
    text = (tmp_path / "house" / file).read_text()
    assert found, report.problems
    assert any(words in p.statement and (not at or p.line == line(text, at)) for p in found), found


@pytest.mark.parametrize(
    ("rule", "files", "place", "words"),
    [
        (
            "login_gone",
            {"k8s/dynamic.yaml": "http: {middlewares: {other: {addPrefix: {prefix: /a}}}}\n"},
            ("gate/compose.yaml", "middlewares=check@file"),
            "names the middleware check@file, which nothing declares any more",
        ),
        (
            "login_gone",
            {"gate/compose.yaml": GATE.replace("check@file", "chekc@file")},
            ("gate/compose.yaml", "chekc@file"),
            "chekc@file, which nothing declares, in place of check@file",
        ),
        (
            "login_gone",
            {"gate/compose.yaml": "\n".join(li for li in GATE.split("\n") if "door:" not in li)},
            ("k8s/dynamic.yaml", "door:9091"),
            "which led to service gate/door, which is gone",
        ),
        (
            "login_gone",
            {"k8s/dynamic.yaml": CHECK.replace("door", "dor")},
            ("k8s/dynamic.yaml", "dor:9091"),
            "no service is called so: it was service gate/door",
        ),
        (
            "route-without-login",
            {"gate/compose.yaml": GATE.replace("routers.loft.rule", "routers.lofty.rule")},
            ("gate/compose.yaml", "lofty.rule"),
            "loft.example.org: The proxy leads to loft without asking",
        ),
    ],
)
def test_a_login_that_a_route_had_is_told_to_be_lost(
    rule: str,
    files: dict[str, str | None],
    place: tuple[str, str],
    words: str,
    settings: Settings,
    tmp_path: Path,
) -> None:
    found = [p for p in check(settings, tmp_path, files, GATED).problems if p.rule == rule]
    text = (tmp_path / "house" / place[0]).read_text()
    assert [(p.file, p.line) for p in found] == [(place[0], line(text, place[1]))], found
    assert words in found[0].statement


def test_a_login_that_is_moved_is_not_lost(settings: Settings, tmp_path: Path) -> None:
    """A middleware in another file, a service that is asked by an address of the world, and a new router with
    a middleware that nobody has read are no loss."""
    files: dict[str, str | None] = {
        "k8s/dynamic.yaml": CHECK.replace("http://door:9091", "https://login.example.net"),
        "gate/compose.yaml": GATE
        + "  new: {image: 'new:1', labels: [traefik.enable=true, traefik.http.routers.new.rule="
        "Host(`new.example.org`), traefik.http.routers.new.middlewares=far@file]}\n",
    }
    assert [p for p in check(settings, tmp_path, files, GATED).problems if "login" in p.rule] == []


def test_what_a_new_service_or_route_never_had_is_not_lost(settings: Settings, tmp_path: Path) -> None:
    volumes = "['/etc:/host', '/run/docker.sock:/s']"
    new = f"services: {{new: {{image: 'nginx:1', privileged: true, volumes: {volumes}}}}}"
    route = PROXY.replace("shop.", "new.").replace("http://web:80", "http://admin:8080")
    report = check(settings, tmp_path, {"new/compose.yaml": new, "proxy/new.conf": route})
    assert report.problems == ()


@pytest.mark.parametrize(
    "files",
    [
        {"shop/compose.yaml": shop("services:", "# Moved down.\n\nservices:")},
        {"shop/compose.yaml": shop("adminer:4", "adminer:5")},
        {"shop/compose.yaml": shop("8081:8080", "8082:8080")},
        {"shop/compose.yaml": shop("    depends_on:\n      db: {condition: service_healthy}\n", "")},
        {"shop/compose.yaml": shop("      MODE: ${MODE}\n", ""), "shop/.env": ""},
        {"blog/compose.yaml": None},
        {"new/compose.yaml": "services: {new: {image: 'a:1', depends_on: [old]}, old: {image: 'a:1'}}\n"},
    ],
)
def test_what_breaks_nothing_is_no_problem(
    files: dict[str, str | None], settings: Settings, tmp_path: Path
) -> None:
    assert check(settings, tmp_path, files).problems == ()


def test_what_was_wrong_before_is_not_told_wherever_it_moved(settings: Settings, tmp_path: Path) -> None:
    wrong = shop("8081:8080", "8080:8080").replace("adminer:4", "adminer").replace("volumes:\n  pages:\n", "")
    # Two files that are not there, in lines that follow each other.
    wrong += "configs:\n  a: {file: ./a.json}\n  b: {file: ./b.json}\n"
    route = PROXY.replace("web:80", "web:8080")
    write(tmp_path / "house", {**HOUSE, **ENV, "shop/compose.yaml": wrong, "proxy/shop.conf": route})
    checker = Checker(settings)
    before = checker.side([files_of(e, f"/{e.config.path}", settings) for e in entries(tmp_path / "house")])
    write(tmp_path / "house", {"shop/compose.yaml": f"# One line more.\n{wrong}"})
    after = checker.side([files_of(e, f"/{e.config.path}", settings) for e in entries(tmp_path / "house")])
    report = checker.check(before, after)
    assert (report.problems, report.facts, report.files) == ((), (), ("shop/compose.yaml",))


@pytest.mark.parametrize(
    ("ports", "rules"), [(["5433:5432"], set()), (["5432:5432", "5433:5432"], {"store-published"})]
)
def test_what_is_published_of_a_store_is_told_once_wherever_it_moved(
    ports: list[str], rules: set[str], settings: Settings, tmp_path: Path
) -> None:
    old = "services: {db: {image: 'postgres:16', ports: ['5432:5432']}}\n"
    new = f"services: {{db: {{image: 'postgres:16', ports: {ports}}}}}\n"
    report = check(settings, tmp_path, {"store/compose.yaml": new}, {"store/compose.yaml": old})
    assert {p.rule for p in report.problems} == rules


def test_what_cannot_be_read_is_told_first_though_it_was_so_before(
    settings: Settings, tmp_path: Path
) -> None:
    house = tmp_path / "house"
    broken = shop("services:", "services: [")
    example = {
        "shop/compose.example.yaml": broken,
        "blog/compose.yaml": BLOG.replace("redis:", "${x-y z redis:"),
    }
    write(house, {**HOUSE, **ENV, **example, "shop/compose.yaml": broken})
    checker = Checker(settings)
    before = checker.side([files_of(e, f"/{e.config.path}", settings) for e in entries(house)])
    write(house, {"proxy/shop.conf": PROXY.replace("web", "nowhere"), "k8s/app.yaml": SECRET})
    after = checker.side([files_of(e, f"/{e.config.path}", settings) for e in entries(house)])
    # Neither an example, nor a file of which one value is wrong.
    assert any(p.code == "E_PARSE" and p.path == "blog/compose.yaml" for _, p in before.state.problems)
    same = checker.check(before, before).problems
    assert [(p.rule, p.file) for p in same] == [("unreadable", "shop/compose.yaml")]
    first, *others = checker.check(before, after).problems
    assert first == same[0] and "before" in first.statement and others


def test_a_value_that_is_refused_is_told_at_its_line_and_only_once(
    settings: Settings, tmp_path: Path
) -> None:
    fields = {"id": "all", "type": "files", "path": ".", "interpret": True, "include": ["*.yml"]}
    entry = Entry("default", "all", "active", parse_entry(fields), tmp_path)
    checker = Checker(settings)
    sides = []
    scraped = "scrape_configs:\n  - job_name: a\n    static_configs:\n      - targets: [a:9100]\n"
    wrong = f"{scraped}      - targets: ['a b:9100']\n"
    for text in (scraped, wrong, f"# One line more.\n{wrong}"):
        write(tmp_path, {"prometheus.yml": text})
        sides.append(checker.side([files_of(entry, "/.", settings)]))
    (problem,) = checker.check(sides[0], sides[1]).problems
    assert (problem.rule, problem.file, problem.line) == ("unreadable", "prometheus.yml", line(wrong, "a b:"))
    assert "prometheus.yml" not in problem.statement
    assert checker.check(sides[1], sides[2]).problems == ()


def test_an_empty_text_is_no_problem_and_what_configured_something_is(
    settings: Settings, tmp_path: Path
) -> None:
    empty: dict[str, str | None] = {"shop/README.md": "", "blog/README.md": "\n"}
    assert check(settings, tmp_path, empty).problems == ()
    assert told(check(settings, tmp_path, {"blog/compose.yaml": ""})) == {
        ("unreadable", "blog/compose.yaml", 0)
    }


SITES = "grist.example.org {\n  reverse_proxy grist:8484\n}\n"


def test_what_depends_on_the_environment_is_not_known_and_nothing_is_gone(
    settings: Settings, tmp_path: Path
) -> None:
    fields = {"id": "all", "type": "files", "path": ".", "interpret": True, "include": ["Caddyfile"]}
    entry = Entry("default", "all", "active", parse_entry(fields), tmp_path)
    checker = Checker(settings)
    reports = []
    for text in (SITES.replace(".example.org", ".{$DOMAIN}"), SITES + "b.example.org {\n  invoke way\n}\n"):
        write(tmp_path, {"Caddyfile": SITES})
        before = checker.side([files_of(entry, "/.", settings)])
        write(tmp_path, {"Caddyfile": text})
        reports.append(checker.check(before, checker.side([files_of(entry, "/.", settings)])))
    open_, lost = reports
    note = "Not known: of Caddyfile in line 1: the site's address depends on the environment."
    assert (open_.problems, open_.notes) == ((), (note,))
    # What a file names of itself is no file.
    assert told(lost) == {("upstream_gone", "Caddyfile", 5)}


def test_a_new_name_makes_no_new_conflict(settings: Settings, tmp_path: Path) -> None:
    secret = "image: adminer:4\n    environment: {ADMIN_PASSWORD: correct-horse-battery}"
    twice = shop("8081:8080", "8080:8080").replace("image: adminer:4", secret.replace(":4", ""))
    write(tmp_path / "house", {**HOUSE, **ENV, "shop/compose.yaml": twice})
    checker = Checker(settings)
    sides = []
    for text in (
        twice,
        twice.replace("  admin:", "  adminer:"),
        twice.replace("image: postgres:16", 'ports: ["8080:80"]\n    image: postgres:16'),
    ):
        write(tmp_path / "house", {"shop/compose.yaml": text})
        sides.append(
            checker.side([files_of(e, f"/{e.config.path}", settings) for e in entries(tmp_path / "house")])
        )
    assert checker.check(sides[0], sides[1]).problems == ()
    assert [p.rule for p in checker.check(sides[0], sides[2]).problems] == ["port_taken"]


def test_projects_of_a_source_that_names_no_machine_share_one(settings: Settings, tmp_path: Path) -> None:
    project = "services:\n  {0}:\n    image: example/{0}:1\n    ports: ['{1}']\n"
    ports = {"front": "80:80", "photos": "2283:2283", "wiki": "3000:80", "notes": "3000:3000"}

    def side(host: str | None, photos: str) -> Side:
        of = ports | {"photos": photos}
        write(tmp_path, {f"{name}/compose.yaml": project.format(name, port) for name, port in of.items()})
        fields = {"id": "stacks", "type": "compose", "path": "."} | ({"host": host} if host else {})
        entry = Entry("default", "stacks", "active", parse_entry(fields), tmp_path)
        return checker.side([files_of(entry, "/.", settings)])

    checker = Checker(settings)
    for host, where in ((None, "the machine of stacks"), ("nas", "on nas")):
        before = side(host, "2283:2283")
        (clash,) = checker.check(before, side(host, "80:2283")).problems
        assert (clash.rule, clash.file, clash.line) == ("port_taken", "photos/compose.yaml", 4)
        assert "front/front and photos/photos publish 80/tcp" in clash.statement and where in clash.statement
        # Of the port that two published before nothing is told, whatever else changes.
        assert checker.check(before, side(host, "80:2283/udp")).problems == ()
        (third,) = checker.check(before, side(host, "3000:2283")).problems
        assert "publish 3000/tcp" in third.statement and third.file == "photos/compose.yaml"
        assert checker.check(side(host, "3000:2283"), before).problems == ()


def test_a_name_that_is_given_twice_on_a_machine_that_nobody_named_is_not_known(
    settings: Settings, tmp_path: Path
) -> None:
    project = "services:\n  {0}:\n    image: example/{0}:1\n    container_name: {1}\n"
    both = project + project.removeprefix("services:\n").replace("{0}", "two")

    def side(texts: Mapping[str, str], host: str | None) -> Side:
        write(tmp_path, {f"{name}/compose.yaml": text for name, text in texts.items()})
        fields = {"id": "stacks", "type": "compose", "path": "."} | ({"host": host} if host else {})
        entry = Entry("default", "stacks", "active", parse_entry(fields), tmp_path)
        return checker.side([files_of(entry, "/.", settings)])

    checker = Checker(settings)
    nas, rack = project.format("agent", "agent"), project.format("watch", "watch")
    for host in (None, "nas"):
        before = side({"nas": nas, "rack": rack}, host)
        after = side({"nas": nas, "rack": rack.replace("name: watch", "name: agent")}, host)
        report = checker.check(before, after)
        assert [p.rule for p in report.problems] == (["container-name-twice"] if host else [])
        said = "Not known: whether nas/agent and rack/watch both have the container name agent on the machine"
        assert report.notes == (
            () if host else (f"{said} of stacks (no `host` names it). It stands in nas/compose.yaml:4.",)
        )
        # What is not known of both sides is told of no change.
        assert checker.check(after, after).notes == ()
        # One project is on one machine.
        after = side({"nas": both.format("agent", "agent"), "rack": rack}, host)
        assert [p.rule for p in checker.check(before, after).problems] == ["container-name-twice"]


def test_of_a_file_that_cannot_be_read_nothing_is_told_to_be_gone(settings: Settings, tmp_path: Path) -> None:
    report = check(settings, tmp_path, {"shop/compose.yaml": shop("    image: adminer:4", "   image: [a")})
    assert "unreadable" in {p.rule for p in report.problems}
    assert [f for f in report.facts if f.file == "shop/compose.yaml"] == []
    assert not any("is gone" in c.cause for c in report.impact)
    # Another file's facts are told; a network is called one once.
    moved = BLOG.replace("shop_front", "edge")
    report = check(settings, tmp_path / "other", {"blog/compose.yaml": moved})
    said = {(f.fact, f.before, f.after) for f in report.facts if f.subject == "service blog/blog"}
    assert ("network", "shop_front", "edge") in said


def test_facts_are_told_with_what_was_and_what_is(settings: Settings, tmp_path: Path) -> None:
    changed = shop("nginx:1.27", "nginx:1.28").replace("8081:8080", "9090:8080")
    changed = changed.replace("    image: postgres:16\n", "    image: postgres:16\n    mem_limit: 1g\n")
    report = check(settings, tmp_path, {"shop/compose.yaml": changed, "shop/.env": "MODE=test\nMORE=1\n"})
    facts = {(f.kind, f.subject, f.fact, f.before, f.after) for f in report.facts}
    assert facts == {
        ("changed", "service shop/web", "image", "nginx:1.27", "nginx:1.28"),
        ("changed", "service shop/admin", "port", "8081→8080/tcp on host nas", "9090→8080/tcp on host nas"),
        ("added", "service db", "mem_limit", "", "1g"),
        # What a variable is set to may be secret.
        ("changed", "variables", "MODE", "", ""),
        ("added", "variables", "MORE", "", ""),
    }
    (image,) = [f for f in report.facts if f.fact == "image"]
    assert (image.file, image.line) == ("shop/compose.yaml", line(changed, "nginx:1.28"))
    affected = {(c.cause, c.affected, c.how) for c in report.impact}
    assert affected == set()


def test_a_variable_of_a_file_that_is_linked_is_told_once_and_last(
    settings: Settings, tmp_path: Path
) -> None:
    root, project = tmp_path / "house", "services:\n  {0}:\n    image: {0}:1\n    ports: ['${{PORT}}:80']\n"
    write(root, {f"{name}/compose.yaml": project.format(name) for name in ("a", "b")})
    entry = Entry(
        "default", "all", "active", parse_entry({"id": "all", "type": "compose", "path": "."}), root
    )
    (root / "a.env").write_text("PORT=80\n")
    for name in ("a", "b"):
        (root / name / ".env").symlink_to("../a.env")
    checker = Checker(settings)
    before = checker.side([files_of(entry, "/.", settings)])
    (root / "a.env").write_text("PORT=81\n")
    report = checker.check(before, checker.side([files_of(entry, "/.", settings)]))
    facts = [(f.fact, f.file) for f in report.facts]
    assert facts == [("port", "a/compose.yaml"), ("port", "b/compose.yaml"), ("PORT", "a.env")]
    assert report.files == ("a.env",)


def test_that_a_secret_changed_is_told_and_not_to_what(settings: Settings, tmp_path: Path) -> None:
    before = shop("      MODE: ${MODE}\n", "      DB_PASSWORD: kx83-first-Qz\n")
    write(tmp_path / "house", {**HOUSE, "shop/compose.yaml": before})
    house = entries(tmp_path / "house")
    checker = Checker(settings)
    sides = [checker.side([files_of(e, f"/{e.config.path}", settings) for e in house])]
    write(tmp_path / "house", {"shop/compose.yaml": before.replace("first", "other")})
    sides.append(checker.side([files_of(e, f"/{e.config.path}", settings) for e in house]))
    report = checker.check(sides[0], sides[1])
    assert report.files == ("shop/compose.yaml",)
    (fact,) = report.facts
    assert (fact.kind, fact.subject) == ("changed", "shop/compose.yaml") and "secret" in fact.fact
    assert "other" not in report.model_dump_json()


def test_a_connection_of_a_file_that_did_not_change_is_told(settings: Settings, tmp_path: Path) -> None:
    cache = "  cache:\n    image: redis:7\n    container_name: shop-cache\n    networks: [front]\n  admin:\n"
    report = check(settings, tmp_path, {"shop/compose.yaml": shop("  admin:\n", cache)})
    (found,) = [f for f in report.facts if f.subject == "service blog/blog" and f.fact == "connection"]
    assert (found.kind, found.file, found.line) == ("added", "blog/compose.yaml", line(BLOG, "shop-cache"))


def test_a_setting_that_leads_nowhere_any_more_is_told_with_its_value(
    settings: Settings, tmp_path: Path
) -> None:
    report = check(settings, tmp_path, {"shop/compose.yaml": shop("u@db:5432", "u@elsewhere:5432")})
    facts = {(f.kind, f.fact) for f in report.facts}
    assert facts == {("removed", "connection"), ("changed", "environment.DATABASE_URL")}
    assert told(report) == {("dependency_gone", "shop/compose.yaml", line(SHOP, "DATABASE_URL"))}


def test_who_follows_a_service_to_its_new_name_is_not_affected(settings: Settings, tmp_path: Path) -> None:
    renamed = shop("  db:\n", "  store:\n").replace("      db: {", "      store: {")
    half = check(settings, tmp_path, {"shop/compose.yaml": renamed})
    (needed,) = half.impact
    assert (needed.cause, needed.affected) == ("service shop/db is gone", "web")
    report = check(settings, tmp_path, {"shop/compose.yaml": renamed.replace("@db:", "@store:")})
    assert not report.impact and not any(rule == "dependency_gone" for rule, *_ in told(report))


def test_who_needed_what_is_gone_is_told(settings: Settings, tmp_path: Path) -> None:
    without = SHOP[: SHOP.index("  db:\n    image")] + SHOP[SHOP.index("  admin:") :]
    report = check(settings, tmp_path, {"shop/compose.yaml": without})
    (needed,) = report.impact
    assert (needed.cause, needed.affected, needed.how) == ("service shop/db is gone", "web", "needs it")
    assert (needed.file, needed.line) == ("shop/compose.yaml", line(SHOP, "db: {condition"))
    # Once by the dependency, once by the connection that its settings name.
    assert told(report) == {
        ("dependency_gone", "shop/compose.yaml", line(without, "db: {condition")),
        ("dependency_gone", "shop/compose.yaml", line(without, "DATABASE_URL")),
    }


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "http://wiki:8080",
            "http://wikl:8080",
            "service systemd/tasks asks for wikl in place of service systemd/wiki",
        ),
        ("http://wiki:8080", "http://wiki.example.org:8080", ""),
        ("http://wiki:8080", "http://127.0.0.1:8080", ""),
        (
            "Requires=wiki.service",
            "Requires=wikis.service",
            "depends on service systemd/wikis, which nothing declares",
        ),
        ("Requires=wiki.service", "Requires=wiki.service sshd.service", ""),
        ("[Unit]", "[Unit]\nAfter=wikki.service", "which nothing declares; wiki is declared"),
    ],
)
def test_a_name_that_is_misspelled_is_told(
    old: str, new: str, said: str, settings: Settings, tmp_path: Path
) -> None:
    assert old in TASKS
    report = check(settings, tmp_path, {"tasks.container": TASKS.replace(old, new)})
    assert len(report.problems) == bool(said)
    assert all(said in p.statement and p.rule == "dependency_gone" for p in report.problems), report.problems


MONITORING = """services:
  prometheus:
    image: prom/prometheus:v3
    command: ["--config.file=/etc/prometheus/prometheus.yml", --web.enable-lifecycle]
    volumes:
      - ./prometheus:/etc/prometheus
      - made:/etc/prometheus/made
      - ./data:/prometheus
      - type: bind
        source: ./prometheus/web.yml
        target: /web.yml
volumes: {made: }
"""
WATCHED = {
    "watch/compose.yaml": MONITORING,
    "watch/prometheus/prometheus.yml": "rule_files: [rules/house.yml, /etc/prometheus/rules/more.yml,"
    " /etc/prometheus/made/x.yml]\n",
    "watch/prometheus/made/x.yml": "groups: []\n",
    "watch/prometheus/rules/house.yml": "groups: []\n",
    "watch/prometheus/rules/more.yml": "groups: [{name: house}]\n",
    "watch/prometheus/web.yml": "tls_server_config: {}\n",
}


@pytest.mark.parametrize(
    ("gone", "told_at"),
    [
        (["rules/house.yml"], [("prometheus/prometheus.yml", "rules/house")]),
        (["rules/more.yml"], [("prometheus/prometheus.yml", "rules/more")]),
        (["prometheus.yml"], [("compose.yaml", "--config.file")]),
        (["web.yml"], [("compose.yaml", "- type: bind")]),
        # Another volume lies over it.
        (["made/x.yml"], []),
        (
            ["web.yml", "prometheus.yml", "rules/house.yml", "rules/more.yml", "made/x.yml"],
            [("compose.yaml", "./prometheus:"), ("compose.yaml", "- type: bind")],
        ),
    ],
)
def test_a_file_that_is_mounted_or_named_and_gone_is_told(
    gone: list[str], told_at: list[tuple[str, str]], settings: Settings, tmp_path: Path
) -> None:
    house = tmp_path / "house"
    fields = {"id": "all", "type": "files", "path": ".", "interpret": True, "include": ["**/*.y*ml"]}
    entry = Entry("default", "all", "active", parse_entry(fields), house)
    write(house, WATCHED)
    checker = Checker(settings)
    before = checker.side([files_of(entry, "/.", settings)])
    for name in gone:
        (house / "watch/prometheus" / name).unlink()
    for folder in ("made", "rules", "."):
        if not any((house / "watch/prometheus" / folder).iterdir()):
            (house / "watch/prometheus" / folder).rmdir()
    report = checker.check(before, checker.side([files_of(entry, "/.", settings)]))
    expected = {("file_gone", f"watch/{at}", line(WATCHED[f"watch/{at}"], words)) for at, words in told_at}
    assert told(report) == expected, report.problems


def test_what_lies_there_though_no_source_reads_it_is_not_gone(settings: Settings, tmp_path: Path) -> None:
    house = tmp_path / "house"

    def side(include: str) -> Side:
        fields = {"id": "all", "type": "files", "path": ".", "interpret": True, "include": [include]}
        entry = Entry("default", "all", "active", parse_entry(fields), house)
        return checker.side([files_of(entry, "/.", settings)])

    write(house, WATCHED)
    checker = Checker(settings)
    before = side("**/*.y*ml")
    write(house, {"watch/prometheus/prometheus.yml": "rule_files: [rules/house.yml, rules/new.yml]\n"})
    assert checker.check(before, side("**/[cp]*.y*ml")).problems == ()
    (house / "watch/prometheus/rules/house.yml").unlink()
    assert [p.line for p in checker.check(before, side("**/[cp]*.y*ml")).problems] == [1]


@pytest.mark.parametrize(
    ("published", "asked"),
    [
        # The container listens where it did, and the name of the machine leads to what it publishes.
        ("5433:5432", "@db:5432"),
        ("5433:5432", "@nas:5433"),
        # It is another port that it listens on.
        ("5433:5433", "@db:5433"),
    ],
)
def test_a_port_that_is_asked_for_where_it_is_is_no_problem(
    published: str, asked: str, settings: Settings, tmp_path: Path
) -> None:
    before = LISTENING.replace("127.0.0.1:", "").replace("@db", asked.partition(":")[0])
    after = before.replace("5432:5432", published).replace(f"{asked.partition(':')[0]}:5432", asked)
    report = check(settings, tmp_path, {"shop/compose.yaml": after}, {"shop/compose.yaml": before})
    assert "connection_port" not in {p.rule for p in report.problems}


@pytest.mark.parametrize(
    ("host", "address", "ports", "is_told"),
    [
        ("admin.example.org", "192.168.7.2", "8083:8080", True),
        # The machine of the source is asked.
        ("a.example.org", "nas", "8083:8080", True),
        # Whose address it is nobody knows.
        ("router.example.org", "192.168.7.2", "8083:8080", False),
        # It is there as well.
        ("admin.example.org", "192.168.7.2", "8081-8083:8080-8082", False),
    ],
)
def test_a_route_to_a_port_that_moved_away_is_told(
    host: str, address: str, ports: str, is_told: bool, settings: Settings, tmp_path: Path
) -> None:
    way = f"server {{ server_name {host};\n location / {{ proxy_pass http://{address}:8081; }} }}\n"
    moved = {"shop/compose.yaml": shop("8081:8080", ports)}
    report = check(settings, tmp_path, moved, {"proxy/way.conf": way})
    assert told(report) == ({("upstream_gone", "proxy/way.conf", 2)} if is_told else set())
    assert all(f"leads {host} to {address}:8081" in p.statement for p in report.problems)


def test_what_a_file_of_a_proxy_led_to_is_affected_when_it_is_gone(
    settings: Settings, tmp_path: Path
) -> None:
    report = check(settings, tmp_path, {"proxy/shop.conf": None})
    (affected,) = report.impact
    assert (affected.cause, affected.affected) == ("proxy proxy leads there no more", "web")
    assert affected.how == "was reached by shop.example.org"
    assert (affected.file, affected.line) == ("proxy/shop.conf", line(PROXY, "proxy_pass"))
    moved = check(settings, tmp_path, {"proxy/shop.conf": PROXY.replace("web:80", "admin:8080")})
    assert moved.impact == ()


def test_who_would_start_with_another_folder_is_affected(settings: Settings, tmp_path: Path) -> None:
    kept = shop("pages:/usr", "${DATA:-/srv}/pages:/usr").replace(
        "image: postgres:16", "image: postgres:16\n    volumes: ['/srv/db:/var/lib/postgresql/data', ./a:/a]"
    )
    report = check(settings, tmp_path, {"shop/.env": "MODE=live\nDATA=/mnt\n"}, {"shop/compose.yaml": kept})
    (moved,) = report.impact
    assert (moved.cause, moved.affected) == ("/srv/pages is /mnt/pages now", "web")
    assert moved.how == "would start with what lies there, at /usr/share/nginx/html"
    assert (moved.file, moved.line) == ("shop/compose.yaml", line(kept, "/pages"))


def test_a_network_that_another_project_made_is_missed(settings: Settings, tmp_path: Path) -> None:
    report = check(settings, tmp_path, {"shop/compose.yaml": None, "proxy/shop.conf": None})
    assert ("network_gone", "blog/compose.yaml", line(BLOG, "[shop_front]")) in told(report)
    assert ("network shop_front is gone", "blog") not in {(c.cause, c.affected) for c in report.impact}


PROXIES = """
services:
  proxy:
    image: lscr.io/linuxserver/swag:3.0.0
    networks: [shop_front, other]
networks:
  shop_front: {external: true}
  other: {external: true}
"""
APART = "networks: [back]\n    volumes"


@pytest.mark.parametrize(
    ("name", "old", "new", "network"),
    [
        ("shop/compose.yaml", "networks: [front]\n    volumes", APART, ("shop/compose.yaml", "[front]")),
        ("edge/compose.yaml", "[shop_front, other]", "[other]", ("edge/compose.yaml", "[shop_front")),
        ("shop/compose.yaml", "networks: [front]\n    volumes", APART.replace("[", "[front, "), None),
        ("edge/compose.yaml", "[shop_front, other]", "[shop_front]", None),
    ],
)
def test_a_route_to_what_left_the_network_of_its_proxy_is_told(
    name: str, old: str, new: str, network: tuple[str, str] | None, settings: Settings, tmp_path: Path
) -> None:
    house = {"edge/compose.yaml": PROXIES, "shop/compose.yaml": shop("  front:\n", "  front:\n  back:\n")}
    write(tmp_path / "house", {**HOUSE, **ENV, **house})
    checker = Checker(settings)
    sides = []
    for text in (house[name], house[name].replace(old, new)):
        write(tmp_path / "house", {name: text})
        sides.append(
            checker.side([files_of(e, f"/{e.config.path}", settings) for e in entries(tmp_path / "house")])
        )
    report = checker.check(*sides)
    found = [p for p in report.problems if p.rule == "name_unreachable"]
    assert len(found) == bool(network)
    for problem in found if network else ():
        assert (problem.file, problem.line) == ("proxy/shop.conf", line(PROXY, "proxy_pass"))
        at = f"{network[0]}:{line(house[network[0]], network[1])}"
        assert (
            "leads shop.example.org to service shop/web, and no network has both any more"
            in problem.statement
        )
        assert f"it was network shop_front ({at})" in problem.statement
        assert checker.check(sides[1], sides[1]).problems == ()


def test_what_left_a_list_is_told_alone(settings: Settings, tmp_path: Path) -> None:
    def facts(old: str, new: str) -> set[tuple[str, str, str, str]]:
        house = shop("    image: postgres:16", f"    image: postgres:16\n    dns: [{old}]")
        write(tmp_path / "house", {**HOUSE, **ENV, "shop/compose.yaml": house})
        checker = Checker(settings)
        all_of = entries(tmp_path / "house")
        before = checker.side([files_of(e, f"/{e.config.path}", settings) for e in all_of])
        write(tmp_path / "house", {"shop/compose.yaml": house.replace(f"[{old}]", f"[{new}]")})
        after = checker.side([files_of(e, f"/{e.config.path}", settings) for e in all_of])
        return {(f.kind, f.fact, f.before, f.after) for f in checker.check(before, after).facts}

    assert facts("10.0.0.1, 10.0.0.2", "10.0.0.1") == {("removed", "dns", "10.0.0.2", "")}
    assert facts("10.0.0.1", "10.0.0.1, 10.0.0.2") == {("added", "dns", "", "10.0.0.2")}
    assert facts("10.0.0.1, 10.0.0.2", "10.0.0.1, 10.0.0.3") == {("changed", "dns", "10.0.0.2", "10.0.0.3")}
    assert facts("10.0.0.1, 10.0.0.2", "10.0.0.2, 10.0.0.1") == {
        ("changed", "dns", "10.0.0.1, 10.0.0.2", "10.0.0.2, 10.0.0.1")
    }


#: A service in the short forms of the Compose Specification, and in its long ones.
SHORT = """
services:
  web:
    build: .
    ports: ["8080:80", "127.0.0.1:8443:443/tcp", "53:53/udp"]
    environment: [MODE=fast, LEVEL=info]
    volumes: ["./conf:/etc/nginx:ro", "data:/data"]
    command: nginx -g "daemon off;"
    healthcheck: {test: curl -f http://localhost}
    depends_on: [db]
    networks: [front, back]
    extra_hosts: ["nas:192.168.1.5"]
    secrets: [key]
    env_file: web.env
  db: {image: postgres:16}
networks: {front: {}, back: {}}
volumes: {data: {}}
secrets: {key: {file: key.txt}}
"""
LONG = """
services:
  web:
    build: {context: .}
    ports:
      - {target: 80, published: "8080"}
      - {target: 443, published: "8443", host_ip: 127.0.0.1, protocol: tcp}
      - {target: 53, published: "53", protocol: udp}
    environment: {LEVEL: info, MODE: fast}
    volumes:
      - {type: bind, source: ./conf, target: /etc/nginx, read_only: true}
      - {type: volume, source: data, target: /data}
    command: [nginx, -g, daemon off;]
    healthcheck: {test: [CMD-SHELL, curl -f http://localhost]}
    depends_on: {db: {condition: service_started}}
    networks: {back: {}, front: {}}
    extra_hosts: {nas: 192.168.1.5}
    secrets: [{source: key}]
    env_file: [{path: web.env}]
  db: {image: postgres:16}
networks: {front: {}, back: {}}
volumes: {data: {}}
secrets: {key: {file: key.txt}}
"""


def test_what_is_written_in_another_form_says_the_same(settings: Settings, tmp_path: Path) -> None:
    before = {"shop/compose.yaml": SHORT, "shop/web.env": "", "shop/conf/a.conf": ""}
    same = check(settings, tmp_path, {"shop/compose.yaml": LONG}, before)
    assert not same.facts and not same.problems and not same.impact
    changed = LONG.replace('"8443"', '"8444"').replace("LEVEL: info", "LEVEL: debug")
    told = check(settings, tmp_path, {"shop/compose.yaml": changed}, before).facts
    assert [(f.kind, f.fact, f.before, f.after) for f in told] == [
        ("changed", "port", "127.0.0.1:8443→443/tcp on host nas", "127.0.0.1:8444→443/tcp on host nas"),
        ("changed", "environment.LEVEL", "info", "debug"),
    ]


def test_the_first_setting_of_a_service_that_only_needs_others_is_told(
    settings: Settings, tmp_path: Path
) -> None:
    bare = "services:\n  web:\n    depends_on: [db]\n  db: {image: postgres:16}\n"
    new = bare.replace("    depends", "    environment: {LEVEL: info}\n    depends")
    (told,) = check(settings, tmp_path, {"more/compose.yaml": new}, {"more/compose.yaml": bare}).facts
    assert (told.kind, told.fact, told.after) == ("added", "environment.LEVEL", "info")


def test_a_network_that_a_quadlet_made_is_missed(settings: Settings, tmp_path: Path) -> None:
    container = "[Container]\nImage=docker.io/library/{0}:1.2\nContainerName={0}\nNetwork=systemd-photos\n"
    house = {f"{name}.container": container.format(name) for name in ("web", "db")}
    root = tmp_path / "house"
    write(root, {**house, "photos.network": "[Network]\nSubnet=10.89.5.0/24\n"})
    declared = parse_entry({"id": "units", "type": "files", "path": ".", "include": ["*"], "interpret": True})
    checker, entry = Checker(settings), Entry("default", "units", "active", declared, root)
    sides = [checker.side([files_of(entry, "/.", settings)])]
    (root / "photos.network").unlink()
    sides.append(checker.side([files_of(entry, "/.", settings)]))
    assert told(checker.check(*sides)) == {("network_gone", f"{n}.container", 4) for n in ("web", "db")}


def test_sarif_has_what_its_schema_requires(settings: Settings, tmp_path: Path) -> None:
    report = check(settings, tmp_path, {"shop/compose.yaml": shop("adminer:4", "adminer")})
    log = json.loads(json.dumps(sarif(report)))
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] and [r["id"] for r in driver["rules"]] == list(RULES)
    (result,) = run["results"]
    assert result["message"]["text"] and result["level"] == "warning"
    assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "image_unpinned"
    (place,) = result["locations"]
    physical = place["physicalLocation"]
    assert physical["artifactLocation"] == {"uri": "shop/compose.yaml", "uriBaseId": "%SRCROOT%"}
    assert physical["region"] == {"startLine": line(SHOP, "adminer:4")}


def test_markdown_takes_nothing_of_a_file_for_markup(settings: Settings, tmp_path: Path) -> None:
    hostile = shop(
        "    image: adminer:4", "    image: adminer:4\n    command: '</details> | @team <img src=x>'"
    )
    said = markdown(check(settings, tmp_path, {"shop/compose.yaml": hostile}))
    assert "command" in said
    assert not re.search(r"<img|</details> \||@team", said)


def ingested(world: World) -> Path:
    """The house with more in it, taken in; returns its folder."""
    house = world.directory / "house"
    write(house, {**HOUSE, **ENV})
    # A project of several files, one of them reached by a link, and a file of variables.
    write(
        house,
        {
            "base/common.yaml": (
                "services: {base: {image: 'busybox:1', environment: {DB: 'redis://db:6379'}}}\n"
            )
        },
    )
    write(
        house,
        {"more/compose.yaml": MORE},
    )
    write(house, {"more/x.env": "CACHE_URL=redis://cache:6379\n"})
    (house / "more" / "linked.yaml").symlink_to("../base/common.yaml")
    for entry in entries(house):
        fields = json.loads(entry.config.model_dump_json(exclude_defaults=True, exclude={"id", "type"}))
        world.source(entry.source_id, entry.config.type, **{**fields, "path": str(house / fields["path"])})
    world.ingest()
    return house


def test_the_graph_is_the_one_of_an_ingest(world: World) -> None:
    ingested(world)
    kb = world.kb()
    reader, taken = Reader(world.workspace.settings), files_in(world)
    for _ in range(2):  # The second time from what is remembered.
        graph = reader.read(taken).view.graph
        assert edges(graph.edges) == edges(kb.edges())
        assert nodes(graph.nodes) == nodes(kb.nodes())


def files_in(world: World) -> list[Files]:
    return [
        files_of(entry, "/.", world.workspace.settings)
        for source in ("stacks", "proxy", "notes", "units")
        for entry in world.workspace.entries(source)
    ]


def test_what_the_home_holds_is_not_read_again_and_says_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = ingested(world)
    settings = world.workspace.settings
    read: list[str] = []
    row, interpret = states.document_row, Interpreter.interpret

    def parsing(blobs: BlobStore, settings: Settings, entry: Entry, x: Locator, fp: str) -> dict[str, Any]:
        read.append(x.path)
        return row(blobs, settings, entry, x, fp)

    def interpreting(self: Interpreter, units: Sequence[str]) -> Iterator[Outcome]:
        read.extend(units)
        return interpret(self, units)

    monkeypatch.setattr(states, "document_row", parsing)
    monkeypatch.setattr(Interpreter, "interpret", interpreting)

    def compare() -> int:
        """How much is read by who has the home, where both see the same."""
        read.clear()
        held = Reader(settings, Held(world.workspace)).read(files_in(world))
        count = len(read)
        anew = Reader(settings).read(files_in(world))
        assert (held.problems, held.declared, held.variables) == (
            anew.problems,
            anew.declared,
            anew.variables,
        )
        for table in ("nodes", "edges", "documents"):
            assert getattr(held.view.graph, table).equals(getattr(anew.view.graph, table)), table
        return count

    # The file that another takes in has rows in no table.
    assert compare() == 1
    write(house, {"base/common.yaml": "services: {base: {image: 'busybox:2'}}\n"})
    # The file and its link, the words of both, what they declare, and the project that takes one in.
    assert compare() == 7
    write(house, {"shop/README.md": README.replace("8080", "9090")})
    assert compare() == 9
    (house / "shop" / "compose.yaml").unlink()
    assert compare() == 9


def edges(table: pa.Table) -> list[dict[str, object]]:
    """The edges but for names that texts happen to hold, without their times and chunks."""
    columns = ["edge_id", "type", "start_key", "end_key", "doc_id", "line", "run_id", "supports", "source"]
    rows = table.filter(pc.not_equal(table["extraction_method"], "declared_name")).select(
        [*columns, "properties"]
    )
    found = []
    for row in rows.to_pylist():
        own = json.loads(row.pop("properties"))
        # A name that is declared is in the text, too.
        row["supports"] = row["type"] == "MENTIONS" or row["supports"]
        found.append(
            {**row, **{k: v for k, v in own.items() if not k.startswith("chunk") and k != "section"}}
        )
    return sorted(found, key=lambda r: str(r["edge_id"]))


def nodes(table: pa.Table) -> dict[tuple[str, str], str]:
    rows = table.filter(pc.not_equal(table["label"], "Document")).to_pylist()
    return {(row["label"], row["key"]): row["properties"] for row in rows}
