"""The state of a home as Prometheus metrics, read from the catalog and the manifests when they are asked for,
and what a server counts of what it was asked.

The counters of a home are totals of the catalog, so that every process tells the same, and none is lost with
a process. A server counts in its own memory, since a search writes nothing: :func:`served`. :data:`METRICS`
declares each metric; the documentation, the dashboard and the alert rules are made from it. Exposition and
text format are ``prometheus_client``'s.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

from taboot_pipelines import telemetry
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.jobs import JobState, expiring
from taboot_pipelines.settings import Settings
from taboot_pipelines.shards import open_shards
from taboot_pipelines.shards.protocol import load_manifest
from taboot_pipelines.stages import dagster_storage, health
from taboot_pipelines.stages.held_deletions import held
from taboot_pipelines.stages.quotas import usage
from taboot_pipelines.stages.schedules import overdue
from taboot_pipelines.stages.snapshot import snapshot_pointer
from taboot_pipelines.stages.workspace import Workspace, is_paused
from taboot_pipelines.stores.catalog.jobs import OUTCOMES
from taboot_pipelines.stores.catalog.totals import BUCKETS, STEP, SUM
from taboot_pipelines.stores.state.keys import CIRCUIT
from taboot_pipelines.stores.tables import NAMESPACE

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

_EVER = 2**62
_MICROS = 1_000_000


@dataclass(frozen=True)
class MetricSpec:
    """A metric: its name (without the prefix ``taboot_``), its labels, and what it says.

    ``of``: whether a home has it, or each server for itself.
    """

    name: str
    labels: tuple[str, ...]
    help: str
    kind: Literal["gauge", "counter", "histogram"] = "gauge"
    of: Literal["home", "server"] = "home"


_SOURCE, _HOST = ("namespace", "source"), ("namespace", "host")
_DELIVERY = ("namespace", "endpoint", "outcome")
_BY_OUTCOME = ("namespace", "outcome")
METRICS = (
    MetricSpec("build_info", ("release",), "1, with the release that answers."),
    MetricSpec("scrape_duration_seconds", (), "How long it took to gather these metrics."),
    MetricSpec("scrape_timestamp_seconds", (), "When they were gathered (Unix time)."),
    MetricSpec("catalog_up", (), "1 if the catalog answered, which most of them are read from."),
    MetricSpec("documents", _SOURCE, "Documents of a source, those rejected on purpose included."),
    MetricSpec("documents_expiring", ("namespace",), "Documents in the last week of retention."),
    MetricSpec("published_documents", ("namespace",), "Documents that are served."),
    MetricSpec("published_chunks", ("namespace",), "Chunks that are served."),
    MetricSpec("published_words", ("namespace",), "Words of these chunks, as keyword search counts them."),
    MetricSpec("published_entities", ("namespace",), "Entities of the graph that is served."),
    MetricSpec("published_bytes", ("namespace",), "Bytes of the shards that are served."),
    MetricSpec("published_version", ("namespace",), "Version of the manifest in force."),
    MetricSpec("blobs", ("namespace",), "Stored blobs, each content once."),
    MetricSpec("blob_bytes", ("namespace",), "Bytes of the stored blobs."),
    MetricSpec("uploads_waiting", ("namespace",), "Blobs that wait for their object store."),
    MetricSpec(
        "dead_letters",
        (*_SOURCE, "stage", "code", "kind"),
        "Items that failed (kind failed) or were passed by on purpose (skipped).",
    ),
    MetricSpec("held_deletions", _SOURCE, "Deletions that wait for --confirm-deletes."),
    MetricSpec("source_paused", _SOURCE, "1 if the source is paused (enabled: false)."),
    MetricSpec("source_overdue", _SOURCE, "1 if its schedule has been missed once over."),
    MetricSpec("source_last_run_timestamp_seconds", _SOURCE, "When its last run began (Unix time)."),
    MetricSpec(
        "source_last_success_timestamp_seconds",
        _SOURCE,
        "When the last run that succeeded began (Unix time).",
    ),
    MetricSpec("source_last_run_duration_seconds", _SOURCE, "How long its last run read."),
    MetricSpec("source_last_run_failed", _SOURCE, "1 if its last run failed or was interrupted."),
    MetricSpec("source_running", _SOURCE, "1 while a run reads it."),
    MetricSpec("source_items", (*_SOURCE, "outcome"), "Items of its last run, by outcome."),
    MetricSpec("crawl_urls", (*_SOURCE, "state"), "URLs of a source's last crawl, by state."),
    MetricSpec("questions_month", ("namespace",), "Questions to a chat model in this month."),
    MetricSpec("notifications", ("namespace", "state"), "Deliveries of the last 30 days, by their state."),
    MetricSpec("quota_used", ("namespace", "what"), "Of what is limited: bytes, documents, questions."),
    MetricSpec("quota_limit", ("namespace", "what"), "How much of it there may be; absent: no limit."),
    MetricSpec("part_up", ("part",), "1 if a part answers; only where parts are asked."),
    MetricSpec("part_latency_seconds", ("part",), "How long it took to answer."),
    MetricSpec("store_behind", ("namespace", "store"), "1 if a server has yet to get the newest snapshot."),
    MetricSpec("windows_waiting", ("namespace",), "Windows of text that no model has answered about yet."),
    MetricSpec("circuit_rest_seconds", ("namespace", "circuit"), "How long an open circuit rests still."),
    MetricSpec(
        "dagster_runs", ("status",), "Dagster's runs that have not ended; only where parts are asked."
    ),
    MetricSpec("runs_total", (*_SOURCE, "state"), "Runs that ended, by how.", "counter"),
    MetricSpec("items_total", (*_SOURCE, "outcome"), "Items that runs have seen, by outcome.", "counter"),
    MetricSpec("run_duration_seconds", ("namespace",), "How long a run read.", "histogram"),
    MetricSpec(
        "stage_duration_seconds",
        ("namespace", "stage"),
        "How long a stage worked that had something to do.",
        "histogram",
    ),
    MetricSpec(
        "crawl_pages_total",
        (*_HOST, "outcome"),
        "Pages that a crawl has settled. 50 hosts of a namespace are told apart, the others are `other`.",
        "counter",
    ),
    MetricSpec("crawl_bytes_total", _HOST, "Bytes of the pages that answered.", "counter"),
    MetricSpec("crawl_answers_total", _HOST, "Pages that answered.", "counter"),
    MetricSpec("crawl_answer_seconds_total", _HOST, "How long they took, together.", "counter"),
    MetricSpec("deliveries_total", _DELIVERY, "Tries to notify an endpoint, by how they ended.", "counter"),
    MetricSpec("crawl_duration_seconds", ("namespace",), "How long a page took to answer.", "histogram"),
    MetricSpec("searches_total", _BY_OUTCOME, "Searches, by `ok` or error code.", "counter", "server"),
    MetricSpec("search_duration_seconds", ("namespace",), "How long a search took.", "histogram", "server"),
    MetricSpec("answers_total", _BY_OUTCOME, "Questions, by `ok` or error code.", "counter", "server"),
    MetricSpec("answer_duration_seconds", ("namespace",), "How long an answer took.", "histogram", "server"),
    MetricSpec(
        "cache_lookups_total",
        ("cache", "outcome"),
        "Looks into a cache of searches (query) or of their vectors (query_embed): hit or miss.",
        "counter",
        "server",
    ),
    MetricSpec(
        "tool_calls_total", ("tool", "outcome"), "Calls of `taboot mcp`'s tools.", "counter", "server"
    ),
    MetricSpec("pages_total", ("page", "outcome"), "Pages that `taboot browse` showed.", "counter", "server"),
    MetricSpec(
        "model_calls_total",
        ("call", "outcome"),
        "Requests to servers of models: chat, embeddings, rerank.",
        "counter",
        "server",
    ),
    MetricSpec("model_call_duration_seconds", ("call",), "How long they took.", "histogram", "server"),
)
#: A metric, the values of its labels, and a value: of a histogram {number of a step: how many}, and the sum.
Sample = tuple[str, tuple[str, ...], Any]
#: By the name of a span: the metrics that count it and its duration, and their first label.
_SPANS = {
    "search": ("searches_total", "search_duration_seconds", "namespace"),
    "answer": ("answers_total", "answer_duration_seconds", "namespace"),
    "cache": ("cache_lookups_total", None, "cache"),
    "tool": ("tool_calls_total", None, "tool"),
    "page": ("pages_total", None, "page"),
    "model": ("model_calls_total", "model_call_duration_seconds", "call"),
}


def registry(settings: Settings, *, parts: bool = False) -> CollectorRegistry:
    """Return a registry whose metrics are gathered when it is asked.

    ``parts``: with the health of every part, which asks servers and may take seconds.

    Without a catalog it has the release alone.
    """
    return _registered(_Collector(settings, parts=parts))


def _registered(collector: _Collector) -> CollectorRegistry:
    from prometheus_client import CollectorRegistry

    made = CollectorRegistry()
    made.register(collector)
    return made


@cache
def served() -> CollectorRegistry:
    """Return the registry that counts what this process is asked, from the first call on.

    What other processes are asked, and what is known of a home, is not in it.
    """
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

    made = CollectorRegistry()
    release = Gauge("taboot_build_info", METRICS[0].help, METRICS[0].labels, registry=made)
    release.labels(version("taboot-pipelines")).set(1)
    counters, durations = dict[str, Counter](), dict[str, Histogram]()
    for metric in METRICS:
        if metric.of == "server":
            named = (f"taboot_{metric.name}", metric.help, metric.labels)
            if metric.kind == "counter":
                counters[metric.name] = Counter(*named, registry=made)
            else:
                durations[metric.name] = Histogram(*named, registry=made, buckets=BUCKETS)

    def count(span: telemetry.Span) -> None:
        counter, duration, label = _SPANS.get(span.kind, (None, None, ""))
        value = span.attributes.get(f"taboot.{label}", "")
        if counter is not None:
            counters[counter].labels(value, span.outcome).inc()
        if duration is not None:
            durations[duration].labels(value).observe(span.seconds)

    telemetry.listen(count)
    return made


def exposition(settings: Settings, *, parts: bool = False) -> str:
    """Return the metrics of :func:`registry` in Prometheus' text format."""
    from prometheus_client import generate_latest

    collector = _Collector(settings, parts=parts)
    try:
        return generate_latest(_registered(collector)).decode()
    finally:
        collector.close()


class _Collector:
    """Gathers when it is asked, as ``prometheus_client`` wants it."""

    def __init__(self, settings: Settings, *, parts: bool) -> None:
        self._settings, self._parts = settings, parts
        self._lock = threading.Lock()
        self._opened: tuple[Workspace, int | None] | None = None

    def describe(self) -> Iterable[Metric]:
        """No metric before it is asked for: to register it must not read the catalog."""
        return ()

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        began = time.monotonic()
        found: dict[str, list[Sample]] = {}
        for sample in self._samples():
            found.setdefault(sample[0], []).append(sample)
        found["scrape_duration_seconds"] = [("scrape_duration_seconds", (), time.monotonic() - began)]
        found["scrape_timestamp_seconds"] = [("scrape_timestamp_seconds", (), time.time())]
        for metric in METRICS:
            if metric.of == "home":
                named = (f"taboot_{metric.name}", metric.help)
                if metric.kind == "histogram":
                    histogram = HistogramMetricFamily(*named, labels=metric.labels)
                    for _, labels, (steps, total) in found.get(metric.name, ()):
                        histogram.add_metric(labels, _cumulated(steps), total)
                    yield histogram
                    continue
                counted = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
                made = counted(*named, labels=metric.labels)
                for _, labels, value in found.get(metric.name, ()):
                    made.add_metric(labels, value)
                yield made

    def _samples(self) -> Iterator[Sample]:
        yield "build_info", (version("taboot-pipelines"),), 1
        if self._parts:
            for part in health.check(self._settings, load=False):
                yield "part_up", (part.part,), part.ok
                if part.latency_ms is not None:
                    yield "part_latency_seconds", (part.part,), part.latency_ms / 1000
            for status, count in dagster_storage.runs(self._settings).items():
                yield "dagster_runs", (status,), count
        if not health.catalog_exists(self._settings):
            return
        try:
            with self._lock:
                read = list(_of_catalog(self._workspace(), self._parts))
        except TabootError:
            self.close()
            # A scrape says what it can, so that an alert on the rest can fire.
            yield "catalog_up", (), False
        else:
            yield "catalog_up", (), True
            yield from read

    def _workspace(self) -> Workspace:
        """The workspace of the last time, since opening one takes longer than to read from it; another where
        the catalog is another file by now."""
        file = self._settings.home_dir / "catalog.db"
        number = file.stat().st_ino if file.exists() else None
        if self._opened is None or self._opened[1] != number:
            self.close()
            self._opened = Workspace(self._settings), number
        return self._opened[0]

    def close(self) -> None:
        """Close what is kept open from one time to the next."""
        if self._opened is not None:
            self._opened[0].close()
            self._opened = None


def _cumulated(steps: Mapping[int, float]) -> list[tuple[str, float]]:
    """The steps of a histogram as Prometheus wants them: each with all below it."""
    names = (*map(str, BUCKETS), "+Inf")
    return list(zip(names, accumulate(steps.get(n, 0) for n in range(len(names))), strict=True))


def _of_catalog(workspace: Workspace, parts: bool) -> Iterator[Sample]:
    catalog = workspace.catalog
    rows = catalog.sources.find(states=("active", "retiring", "retired"))
    for namespace in sorted({row["namespace"] for row in rows}):
        yield from _of_namespace(workspace, namespace)
        yield from _totals(workspace, namespace)
        # Redis is a part: without one the circuits are in the catalog.
        if parts or workspace.settings.redis.url is None:
            for name, seconds in _circuits(workspace, namespace).items():
                yield "circuit_rest_seconds", (namespace, name), seconds
    late = {(o.namespace, o.source_id) for o in overdue(workspace, datetime.now(UTC))}
    waiting = {(h.namespace, h.source_id): h.deletions for h in held(workspace)}
    for row in rows:
        if row["state"] != "retired":
            at = (row["namespace"], row["source_id"])
            yield "source_paused", at, is_paused(row)
            yield "source_overdue", at, at in late
            yield "held_deletions", at, waiting.get(at, 0)
            yield from _of_source(workspace, *at)


def _of_namespace(workspace: Workspace, namespace: str) -> Iterator[Sample]:
    catalog, at = workspace.catalog, (namespace,)
    stored = catalog.blobs.usage(namespace)
    yield "blobs", at, stored["total_sources"]
    yield "blob_bytes", at, stored["total_bytes"]
    yield "uploads_waiting", at, len(catalog.uploads.due(namespace, _EVER))
    states = catalog.locators.lifecycles(namespace)
    yield "documents_expiring", at, expiring(states)
    for source, of_source in sorted(states.items()):
        yield "documents", (namespace, source), sum(of_source.values())
    for state, count in sorted(catalog.notifications.counts(namespace).items()):
        yield "notifications", (namespace, state), count
    held = usage(workspace, namespace, states)
    yield "questions_month", at, held.questions.asked
    for what, (used, limit) in held.shares().items():
        yield "quota_used", (namespace, what), used
        yield "quota_limit", (namespace, what), limit
    letters = Counter(
        (d["source_id"], d["stage"], d["code"], d["kind"]) for d in catalog.dead_letters.find(namespace)
    )
    for labels, count in sorted(letters.items()):
        yield "dead_letters", (namespace, *labels), count
    try:
        manifest = load_manifest(open_shards(workspace.settings), namespace)
    except TabootError:
        manifest = None  # `part_up` tells of the store, and `taboot status` of the manifest
    yield "windows_waiting", at, catalog.answers.open_count(namespace)
    for store, behind in _behind(workspace, namespace):
        yield "store_behind", (namespace, store), behind
    if manifest is not None:
        yield "published_documents", at, manifest.documents
        yield "published_chunks", at, manifest.chunks
        yield "published_words", at, sum(shard.length for shard in manifest.shards)
        yield "published_entities", at, manifest.entities
        yield "published_bytes", at, sum(f.size for s in manifest.shards for f in s.files)
        yield "published_version", at, manifest.version


def _behind(workspace: Workspace, namespace: str) -> Iterator[tuple[str, bool]]:
    """Yield each server that holds the snapshot, and whether it has yet to get the newest one."""
    settings, snapshot = workspace.settings, snapshot_pointer(workspace, namespace)
    if snapshot is None or (settings.qdrant.url is None and settings.neo4j.url is None):
        return
    # It imports every stage, which takes half a second.
    from taboot_pipelines.stages.chain import CHAIN

    for stage, target in CHAIN.targets.items():
        if target.url(settings) is not None:
            own = workspace.catalog.pointers.get(namespace, NAMESPACE, stage)
            yield target.store, own is None or own.applied.get("snapshot") != snapshot.inputs


def _circuits(workspace: Workspace, namespace: str) -> dict[str, float]:
    """{domain or server that failed repeatedly: seconds until it is tried again}."""
    nothing: dict[str, float] = {}
    resting = workspace.hints.ask(lambda state: state.resting(namespace), nothing)
    return {name.removeprefix(CIRCUIT.prefix): seconds for name, seconds in resting.items()}


def _totals(workspace: Workspace, namespace: str) -> Iterator[Sample]:
    histograms: dict[tuple[str, ...], tuple[dict[int, float], float]] = {}
    for (name, *labels), value in workspace.catalog.totals.all(namespace).items():
        if name.endswith(STEP):
            key = (name.removesuffix(STEP), *labels[:-1])
            histograms.setdefault(key, ({}, 0.0))[0][int(labels[-1])] = value
        elif name.endswith(SUM):
            key = (name.removesuffix(SUM), *labels)
            histograms[key] = histograms.get(key, ({}, 0.0))[0], value
        else:
            yield name, (namespace, *labels), value
    for (name, *labels), told in histograms.items():
        yield name, (namespace, *labels), told


def _of_source(workspace: Workspace, namespace: str, source: str) -> Iterator[Sample]:
    catalog, at = workspace.catalog, (namespace, source)
    last = next(iter(catalog.jobs.find(namespace, source, limit=1)), None)
    succeeded = catalog.jobs.last_succeeded(namespace, source)
    if succeeded is not None:
        yield "source_last_success_timestamp_seconds", at, succeeded["started_at"] / _MICROS
    if last is not None:
        yield "source_last_run_timestamp_seconds", at, last["started_at"] / _MICROS
        ended = last["ended_at"] or last["updated_at"]
        yield "source_last_run_duration_seconds", at, (ended - last["started_at"]) / _MICROS
        wrong = last["state"] in {JobState.FAILED.value, JobState.CANCELED.value}
        yield "source_last_run_failed", at, wrong
        yield "source_running", at, last["state"] == JobState.RUNNING.value
        for outcome in (*OUTCOMES, "held"):
            yield "source_items", (*at, outcome), last[outcome] or 0
    for crawl in catalog.crawls.find(namespace, source, limit=1):
        progress = catalog.crawl_reports.progress(namespace, crawl)
        for state, count in (
            ("pending", progress.pending),
            ("in_progress", progress.in_progress),
            ("done", progress.done),
        ):
            yield "crawl_urls", (*at, state), count


# --- what is made of the list -------------------------------------------------------------------------------


@dataclass(frozen=True)
class AlertSpec:
    """An alert: its name, the expression that is true, for how long, how bad, what it says and what to do."""

    name: str
    expression: str
    lasts: str
    severity: Literal["warning", "critical"]
    says: str
    remedy: str


_WHICH = "{{ $labels.namespace }}/{{ $labels.source }}"
ALERTS = (
    AlertSpec(
        "TabootSourceFailed",
        "taboot_source_last_run_failed == 1",
        "1h",
        "warning",
        f"The last run of {_WHICH} failed.",
        "`taboot status` says why; `taboot ingest SOURCE` tries again.",
    ),
    AlertSpec(
        "TabootSourceOverdue",
        "taboot_source_overdue == 1",
        "1h",
        "warning",
        f"{_WHICH} was not read when it was due.",
        "Look whether the daemon runs (`taboot ui`), then `taboot ingest SOURCE`.",
    ),
    AlertSpec(
        "TabootDeletionsHeld",
        "taboot_held_deletions > 0",
        "1h",
        "warning",
        f"Deletions of {_WHICH} wait for a person.",
        "`taboot held` lists them; confirm by `taboot ingest SOURCE --confirm-deletes`.",
    ),
    AlertSpec(
        "TabootItemsFail",
        'sum by (namespace, source) (taboot_dead_letters{kind="failed"}) > 0',
        "6h",
        "warning",
        f"Items of {_WHICH} fail.",
        "`taboot letters list` names them with what to do.",
    ),
    AlertSpec(
        "TabootUploadsWait",
        "taboot_uploads_waiting > 0",
        "30m",
        "warning",
        "Blobs of {{ $labels.namespace }} wait for their object store.",
        "Look at the store (`taboot status --parts`); the next `taboot ingest` uploads them.",
    ),
    AlertSpec(
        "TabootDocumentsExpire",
        "taboot_documents_expiring > 0",
        "10m",
        "warning",
        "Documents of {{ $labels.namespace }} expire within 7 days.",
        "`taboot retention` lists them; `taboot retain DOCUMENT --forever` keeps one.",
    ),
    AlertSpec(
        "TabootQuotaAlmostUsed",
        "taboot_quota_used >= 0.9 * taboot_quota_limit",
        "10m",
        "warning",
        "Nine tenths of the quota of {{ $labels.what }} of {{ $labels.namespace }} are used.",
        "`taboot usage` shows it; raise it in `quotas` of the sources file, or delete and purge.",
    ),
    AlertSpec(
        "TabootStoreBehind",
        "taboot_store_behind == 1",
        "1h",
        "warning",
        "{{ $labels.store }} has not got the newest snapshot of {{ $labels.namespace }}.",
        "`taboot status --parts` says whether it answers; the next `taboot ingest` brings it up to date.",
    ),
    AlertSpec(
        "TabootSearchesFail",
        'sum by (namespace) (rate(taboot_searches_total{outcome!="ok"}[15m]))'
        " > 0.1 * sum by (namespace) (rate(taboot_searches_total[15m]))",
        "15m",
        "warning",
        "More than a tenth of the searches of {{ $labels.namespace }} fail.",
        "The label `outcome` has the code; `taboot status --parts` asks every part.",
    ),
    AlertSpec(
        "TabootPartDown",
        "taboot_part_up == 0",
        "10m",
        "critical",
        "{{ $labels.part }} does not answer.",
        "`taboot status --parts` says how to mend it.",
    ),
    AlertSpec(
        "TabootCatalogDown",
        "taboot_catalog_up == 0",
        "10m",
        "critical",
        "The catalog does not answer.",
        "`taboot status --parts` says what is the matter with it.",
    ),
    AlertSpec(
        "TabootAbsent",
        "absent(taboot_build_info) or time() - taboot_scrape_timestamp_seconds > 3600",
        "30m",
        "critical",
        "No metric of taboot arrives, or none that is new.",
        "Look at whoever writes them: `taboot metrics --textfile FILE`, or `--listen`.",
    ),
)


def alert_rules() -> dict[str, Any]:
    """The alerts as a file of rules for Prometheus."""
    return {
        "groups": [
            {
                "name": "taboot",
                "rules": [
                    {
                        "alert": alert.name,
                        "expr": alert.expression,
                        "for": alert.lasts,
                        "labels": {"severity": alert.severity},
                        "annotations": {"summary": alert.says, "description": alert.remedy},
                    }
                    for alert in ALERTS
                ],
            }
        ]
    }


def dashboard() -> dict[str, Any]:
    """A Grafana dashboard (schema 39) with a panel for each metric that has a curve to show."""
    shown = [m for m in METRICS if m.name not in {"build_info", "scrape_duration_seconds"}]
    panels = [_panel(number, metric) for number, metric in enumerate(shown)]
    source: Mapping[str, Any] = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "title": "taboot",
        "uid": "taboot",
        "schemaVersion": 39,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus"},
                {
                    "name": "namespace",
                    "type": "query",
                    "datasource": source,
                    "query": "label_values(taboot_blobs, namespace)",
                    "includeAll": True,
                    "multi": True,
                },
            ]
        },
        "panels": [{**panel, "datasource": source} for panel in panels],
    }


def _panel(number: int, metric: MetricSpec) -> dict[str, Any]:
    within = '{namespace=~"$namespace"}' if "namespace" in metric.labels else ""
    series = f"taboot_{metric.name}{within}"
    legend = " ".join(f"{{{{{label}}}}}" for label in metric.labels if label != "namespace")
    targets = [(series, legend or "{{namespace}}")]
    unit = "bytes" if metric.name.endswith("bytes") else "s" if metric.name.endswith("seconds") else "short"
    if metric.name.endswith("timestamp_seconds"):
        targets = [(f"time() - {series}", legend or "{{namespace}}")]
    elif metric.kind == "counter":
        by = ", ".join(metric.labels)
        targets = [(f"sum by ({by}) (rate({series}[$__rate_interval]))", legend or "{{namespace}}")]
        unit = "Bps" if "bytes" in metric.name else "short" if "seconds" in metric.name else "cps"
    elif metric.kind == "histogram":
        by = ", ".join(("le", *metric.labels))
        steps = f"sum by ({by}) (rate(taboot_{metric.name}_bucket{within}[$__rate_interval]))"
        targets = [
            (f"histogram_quantile({share}, {steps})", f"p{share * 100:g} {legend or '{{namespace}}'}")
            for share in (0.5, 0.95)
        ]
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": metric.name.replace("_", " "),
        "description": metric.help,
        "gridPos": {"h": 8, "w": 12, "x": 12 * (number % 2), "y": 8 * (number // 2)},
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "targets": [
            {"refId": "AB"[number], "expr": expression, "legendFormat": said}
            for number, (expression, said) in enumerate(targets)
        ],
    }
