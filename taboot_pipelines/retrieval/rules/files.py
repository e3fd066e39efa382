"""Rules about what files of configuration and manifests say: references, TLS, rights, secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from taboot_pipelines.retrieval.queries.config_files import Value
from taboot_pipelines.retrieval.queries.relations import left_open, reachable
from taboot_pipelines.retrieval.rules.declarations import Declaration, RuleHouse, Violation, spot
from taboot_pipelines.retrieval.rules.services import Find


def value(keys: str, wrong: str, statement: str) -> Find:
    """The rule that in no file of configuration a key that matches ``keys`` has a value that matches
    ``wrong``. ``statement``: with ``{key}`` and ``{value}``."""
    key, bad = re.compile(keys), re.compile(wrong, re.IGNORECASE)

    def find(house: RuleHouse) -> Iterator[Violation]:
        for document in house.holding(key):
            for one in house.values(document):
                last = one.path[-1].rpartition(".")[2]
                if key.fullmatch(last) and bad.fullmatch(one.value.strip()):
                    said = statement.format(key=last, value=one.value.strip())
                    yield Violation(document.path, said, [spot(document, one)])

    return find


_DASHBOARD = re.compile(r"(?i)--?api\.insecure(?:=true)?(?=[\s\"',\]]|$)")


_VARIABLE = re.compile(r"\$(?:\{[^{}]*\}|\w+)")
#: The address of the entry point by which Traefik serves its API where ``api.insecure`` is set.
_API_ADDRESS = re.compile(r"(?i)entry_?points[._]traefik[._]address(?:=|$)")


def dashboard_open(house: RuleHouse) -> Iterator[Violation]:
    """Of a Compose service only where its host publishes the port; of any other it is not known who reaches
    the port, and that is said."""
    services = {(e.document.doc_id, d.service.name): d for d in house.declarations for e in d.entries}
    bound = house.by_start("BINDS")
    for document in house.holding(
        re.compile(r"[aA][pP][iI][._][iI][nN][sS][eE]|insecure[\"']?\s*[:=]\s*[\"']?true")
    ):
        values = house.values(document)
        found = [
            v
            for v in values
            if ".".join(v.path).lower().endswith(("api.insecure", "traefik_api_insecure"))
            and v.value.strip().lower() == "true"
        ] or [v for v in values if v.path[-1] == "command" and _DASHBOARD.search(v.value)]
        for one in found:
            name = one.path[1] if one.path[0] == "services" and len(one.path) > 2 else ""
            own = [v for v in values if not name or v.path[:2] == one.path[:2]]
            port = next((n for v in own if (n := _api_port(v))), 8080)
            service = services.get((document.doc_id, name))
            said = f"Traefik's API and dashboard answer without a login to whoever reaches its port {port}."
            if service is not None and service.form == "compose" and not service.says("network_mode"):
                edges = reachable(bound.get(service.service.number, ()), perhaps=True)
                published = any(
                    (e.properties.get("targetPort") or e.properties["port"]) == port for e in edges
                )
                if not published and not _may_publish(service, port):
                    continue
            yield Violation(document.path, said, [spot(document, one)])
            break


def _may_publish(service: Declaration, port: int) -> bool:
    """Whether variables leave open whether a service of Compose publishes a port of its container's."""
    for entry in service.each("ports") if left_open(service.service, "ports") else ():
        target = _VARIABLE.sub("$", entry.value.value).rpartition(":")[2].partition("/")[0]
        first, _, last = target.partition("-")
        ends = [int(end) for end in (first, last or first) if end.isdecimal()]
        if "$" in target or (len(ends) == 2 and ends[0] <= port <= ends[1]):
            return True
    return False


def _api_port(value: Value) -> int:
    """The port that a value sets for Traefik's API; 0 of another value, or where it is set elsewhere."""
    if not _API_ADDRESS.search(".".join(value.path)):
        return 0
    port = value.value.strip().partition("/")[0].rpartition(":")[2]
    return int(port) if port.isdecimal() else 0


_REMOTE = re.compile(
    r"https?://(?:raw\.githubusercontent\.com/[\w.-]+/[\w.-]+/(?:refs/heads/)?(?:main|master|HEAD)/"
    r"|github\.com/[\w.-]+/[\w.-]+/releases/latest/download/"
    r"|github\.com/[\w.-]+/[\w.-]+/(?:raw|blob)/(?:main|master|HEAD)/)\S+"
)
_REPOSITORY = re.compile(
    r"(?:https?://)?github\.com/[\w.-]+/(?!\S*/(?:releases|archive|raw|blob|tree)/)[\w./-]+"
    r"(?:\?ref=(?:main|master|HEAD)(?:&\S*)?|#(?:main|master)(?::\S*)?)?"
)
#: Keys of what is fetched and run or applied.
_FETCHED = (("resources",), ("bases",), ("components",), ("build",), ("build", "context"))


def reference_that_moves(house: RuleHouse) -> Iterator[Violation]:
    for document in house.holding(re.compile(r"github\.com|raw\.githubusercontent")):
        kustomization = document.path.endswith(("kustomization.yaml", "kustomization.yml"))
        for one in house.values(document):
            keys, text = one.path[2:] if one.path[0] == "services" else one.path, one.value.strip()
            own = (kustomization and len(keys) == 1) or one.path[0] == "services"
            moves = _REMOTE.fullmatch(text) or _REPOSITORY.fullmatch(text)
            if moves and own and tuple(keys) in _FETCHED:
                said = f"{text} is another thing after each push to it."
                yield Violation(document.path, said, [spot(document, one)])


def action_that_moves(house: RuleHouse) -> Iterator[Violation]:
    for document in house.holding(re.compile(r"uses:")):
        for one in house.values(document) if ".github/" in document.path else ():
            if one.path[-1] == "uses" and re.fullmatch(
                r"[\w.-]+/[\w./-]+@(?:main|master|HEAD)", one.value.strip()
            ):
                said = f"The action {one.value.strip()} is another one after each push to it."
                yield Violation(document.path, said, [spot(document, one)])


_RANGE = re.compile(r"[\^~<>=*]|\.x\b|^x$|^latest$")


def chart_that_moves(house: RuleHouse) -> Iterator[Violation]:
    for one in house.manifests(re.compile(r"(?m)^kind:\s*(?:HelmRelease|Application)\b")):
        if one.kind == "HelmRelease":
            versions = [v for v in one.under("spec", "chart", "spec", "version") if len(v.path) == 4]
        else:
            charts = any(True for _ in one.under("spec", "source", "chart"))
            versions = [*one.under("spec", "source", "targetRevision")] if charts else []
        for version in versions if one.kind in ("HelmRelease", "Application") else ():
            text = version.value.strip()
            if _RANGE.search(text) and "$" not in text and "{" not in text:
                yield Violation(
                    one.called, f"Its chart is of any version {text}.", [spot(one.document, version)]
                )


#: What a Secret holds beside credentials: where they are good, of what kind they are, and for whom.
_NO_CREDENTIALS = frozenset(
    {
        *("type", "kind", "name", "project", "namespace", "url", "uri", "server", "host", "hostname", "port"),
        *("endpoint", "region", "bucket", "database", "dbname", "username", "user", "email"),
    }
)


def secret_in_manifest(house: RuleHouse) -> Iterator[Violation]:
    for one in house.manifests(re.compile(r"(?m)^kind:\s*Secret\s*$")):
        if one.kind != "Secret" or any(v.path[0] == "sops" for v in one.values):
            continue
        for held in (*one.under("stringData"), *one.under("data")):
            # Every value of a Secret is masked, but for a URL, of which the credentials are.
            of_url = "://" in held.value
            if held.masked and len(held.path) > 1 and (of_url or held.path[1].lower() not in _NO_CREDENTIALS):
                said = f"The Secret {one.name} holds {held.path[1]} unencrypted."
                yield Violation(one.called, said, [spot(one.document, held)])


def cluster_admin(house: RuleHouse) -> Iterator[Violation]:
    for one in house.manifests(re.compile(r"cluster-admin|(?m:^kind:\s*(?:Cluster)?Role\b)")):
        if one.kind in ("ClusterRoleBinding", "RoleBinding"):
            for role in one.under("roleRef", "name"):
                if role.value == "cluster-admin":
                    who = " ".join(v.value for v in one.under("subjects", "name"))
                    said = f"It lets {who or 'its subjects'} do everything in the cluster."
                    yield Violation(one.called, said, [spot(one.document, role)])


def escalation_allowed(house: RuleHouse) -> Iterator[Violation]:
    for one in house.manifests(re.compile(r"allowPrivilegeEscalation:\s*true")):
        for said in one.values:
            if said.path[-1] == "allowPrivilegeEscalation" and said.value == "true":
                yield Violation(one.called, "Its processes may gain rights.", [spot(one.document, said)])
