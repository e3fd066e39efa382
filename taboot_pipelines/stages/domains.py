"""Settings of domains and lists of proxies where every process finds them, and what a person blocks.

What the sources file says is kept in the catalog for each namespace, since a worker has no such file; a block
or its opposite is a row of its own beside it, so that two people who decide at once lose nothing, and holds
until it is taken back (pointers that publish no table).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from pydantic import SecretStr

from taboot_pipelines.crawl.domains import Domains, DomainSettings, Limits, domain_name
from taboot_pipelines.crawl.proxies import Proxies, ProxySettings
from taboot_pipelines.crawl.urls import parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.ids import digest
from taboot_pipelines.settings import HttpSettings
from taboot_pipelines.sources.sources_file import SourcesFile
from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines.stores.catalog.crawl_urls import OTHER_HOSTS
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.catalog.writing import now_micros
from taboot_pipelines.stores.state.keys import CIRCUIT, RETRY_AFTER
from taboot_pipelines.stores.state.protocol import Lenient, State
from taboot_pipelines.stores.tables import NAMESPACE

_SETTINGS, _BLOCK = "crawl_settings", "domain_block"
_OWNER = "domain:"


def publish_settings(catalog: Catalog, namespace: str, sources: SourcesFile) -> None:
    """Keep the file's ``domains`` and ``proxies`` for the namespace, if they are not what is kept."""
    said = {
        "domains": {n: s.model_dump(mode="json", exclude_defaults=True) for n, s in sources.domains.items()},
        "proxies": {n: s.model_dump(mode="json", exclude_defaults=True) for n, s in sources.proxies.items()},
    }
    inputs = digest(said)
    old = catalog.pointers.get(namespace, NAMESPACE, _SETTINGS)
    if old.inputs != inputs if old is not None else any(said.values()):
        pointer = Pointer(stage=_SETTINGS, tables={}, inputs=inputs, txn="", applied=said)
        catalog.pointers.publish(namespace, NAMESPACE, pointer)


def open_domains(catalog: Catalog, namespace: str, defaults: HttpSettings) -> Domains:
    """The settings of all domains in the namespace; blocks are heeded while they are in use."""
    return Domains(defaults, _settings(catalog, namespace), partial(blocks, catalog, namespace))


def open_proxies(
    catalog: Catalog, hints: Lenient, namespace: str, name: str, secrets: Callable[[str], SecretStr]
) -> Proxies:
    """The list of proxies ``name``. Raises ``E_SOURCES`` if there is none, ``E_CONFIG`` if a password is not
    set."""
    settings = proxy_lists(catalog, namespace).get(name)
    if settings is None:
        raise TabootError("E_SOURCES", f"The sources file lists no proxies {name}.", proxies=name)

    def secret(variable: str) -> str:
        return secrets(variable).get_secret_value()

    return Proxies(name, settings, hints, namespace, secret)


def proxy_lists(catalog: Catalog, namespace: str) -> dict[str, ProxySettings]:
    """The lists of proxies of the sources file, by name."""
    kept = catalog.pointers.get(namespace, NAMESPACE, _SETTINGS)
    lists = kept.applied.get("proxies", {}) if kept is not None else {}
    return {name: ProxySettings.model_validate(fields) for name, fields in lists.items()}


def _settings(catalog: Catalog, namespace: str) -> dict[str, DomainSettings]:
    kept = catalog.pointers.get(namespace, NAMESPACE, _SETTINGS)
    if kept is None:
        return {}
    return {n: DomainSettings.model_validate(s) for n, s in kept.applied.get("domains", {}).items()}


def blocks(catalog: Catalog, namespace: str) -> dict[str, bool]:
    """What a person decided, by domain: blocked, or not although the file says so."""
    found = catalog.pointers.of_stages(namespace, [_BLOCK])
    return {owner.removeprefix(_OWNER): bool(p.applied["blocked"]) for (owner, _), p in found.items()}


def set_blocked(catalog: Catalog, namespace: str, domain: str, blocked: bool, reason: str = "") -> str:
    """Block a domain, or open it, for good; return its name in the form that URLs have. Raises ``E_URL_BAD``
    for what is no name of a domain."""
    name = _name(domain)
    owner = f"{_OWNER}{name}"
    if not blocked:
        catalog.pointers.drop(namespace, owner)
        others = Domains(HttpSettings(), _settings(catalog, namespace), lambda: blocks(catalog, namespace))
        if not others.limits(name).blocked:
            return name
    applied = {"blocked": blocked, "reason": reason, "at": now_micros()}
    pointer = Pointer(stage=_BLOCK, tables={}, inputs=digest(applied), txn="", applied=applied)
    catalog.pointers.publish(namespace, owner, pointer)
    return name


def reset(state: State, namespace: str, domain: str) -> str:
    """Let a domain be asked at once, though it failed or asked to be left alone; return its name. Raises
    ``E_URL_BAD`` for what is no name of a domain, and what the state raises."""
    name = _name(domain)
    state.circuit_succeeded(namespace, CIRCUIT(name))
    state.delete(namespace, [RETRY_AFTER(name)])
    return name


def _name(domain: str) -> str:
    try:
        return domain_name(domain)
    except ValueError as error:
        raise TabootError("E_URL_BAD", f"The domain {error}.", remedy="Name it as URLs do.") from None


@dataclass(slots=True)
class Crawled:
    """What all crawls together came to at a domain: pages by outcome, and of those that answered the bytes,
    the number and the seconds that they took."""

    pages: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    answers: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class DomainRow:
    """What holds for one domain, and who says so: ``file``, ``person`` or, for neither, ``default``.

    ``rest_seconds``: how long it is left alone still since it failed repeatedly; None: it is not.
    """

    domain: str
    limits: Limits
    said_by: str
    crawled: Crawled
    rest_seconds: float | None
    reason: str = ""
    at: int | None = None


def overview(
    catalog: Catalog, hints: Lenient, namespace: str, defaults: HttpSettings, urls: Iterable[str]
) -> list[DomainRow]:
    """Every domain that the file or a person names, that one of ``urls`` belongs to, or that was crawled, by
    name; ``other`` is all hosts that are not told apart."""
    settings = _settings(catalog, namespace)
    decided = {
        owner.removeprefix(_OWNER): p.applied
        for (owner, _), p in catalog.pointers.of_stages(namespace, [_BLOCK]).items()
    }
    domains = open_domains(catalog, namespace, defaults)
    crawled = _crawled(catalog, namespace, domains)
    nothing: dict[str, float] = {}
    resting = hints.ask(lambda state: state.resting(namespace), nothing)
    names = {*settings, *decided, *crawled}
    for url in urls:
        try:
            names.add(domains.name_of(parse_url(url)))
        except TabootError:
            continue
    rows = []
    for name in sorted(names):
        said = decided.get(name)
        by = "person" if said is not None else "file" if name in settings else "default"
        rows.append(
            DomainRow(
                name,
                domains.limits(name),
                by,
                crawled.get(name, Crawled()),
                resting.get(CIRCUIT(name)),
                str(said["reason"]) if said is not None else "",
                said["at"] if said is not None else None,
            )
        )
    return rows


def _crawled(catalog: Catalog, namespace: str, domains: Domains) -> dict[str, Crawled]:
    found: dict[str, Crawled] = {}
    for (name, *labels), value in catalog.totals.all(namespace).items():
        if not name.startswith("crawl_") or not name.endswith("_total"):
            continue
        host = labels[0]
        domain = host if host == OTHER_HOSTS else domains.name_of(parse_url(f"http://{host}/"))
        of_domain = found.setdefault(domain, Crawled())
        match name:
            case "crawl_pages_total":
                of_domain.pages[labels[1]] += int(value)
            case "crawl_bytes_total":
                of_domain.bytes += int(value)
            case "crawl_answers_total":
                of_domain.answers += int(value)
            case "crawl_answer_seconds_total":
                of_domain.seconds += value
    return found
