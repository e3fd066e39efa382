"""From an alert to the document that is read first, and to the thing that is meant.

An alert names its runbook by a link, by its own name, or by nothing but its words; the thing by labels such
as ``job``, ``container`` or ``instance``. Source: prometheus.io, "Alerting rules" and Alertmanager's webhook.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.documents.blocks import Kind, scan_markdown
from taboot_pipelines.documents.mime import is_code
from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.texts import Problems
from taboot_pipelines.extraction.tier_a.yaml_nodes import Node, Origin, parse
from taboot_pipelines.model.graph import is_ip
from taboot_pipelines.packaged import word_list
from taboot_pipelines.retrieval.drift.report import OF_A_DAY
from taboot_pipelines.retrieval.evidence import text_of
from taboot_pipelines.retrieval.impact import machine_of
from taboot_pipelines.retrieval.queries.config_files import config_entries
from taboot_pipelines.retrieval.queries.service_index import Document, service_index
from taboot_pipelines.retrieval.results.alerts import (
    AlertDocument,
    AlertGuide,
    AlertRule,
    AlertThing,
)
from taboot_pipelines.retrieval.results.changes import DocumentChanges
from taboot_pipelines.retrieval.session import Session, View

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.results.hits import Hit, SearchResult
    from taboot_pipelines.retrieval.results.impact import Impact

#: Documents, things, changes and rules that are told.
_DOCUMENTS, _THINGS, _CHANGES, _RULES = 5, 5, 20, 5
#: Labels and annotations that are looked at, and code points of a value.
_MOST, _MAX_CHARS = 64, 1000
#: Hits that documents are made of.
_HITS = 40
#: What is read is prose, and not the rule that raised the alert.
_READ = ["prose", "list", "table"]
#: What a document for the moment is worth more than another that fits as well, and one of a day less.
_RUNBOOK_WEIGHT, _RECORD_WEIGHT = 1.5, 0.7
#: How much of the words of two alerts' names is in both, where the runbook of one is of use for the other.
_AKIN = 0.5
#: How slowly the rank of a hit tells, and letters by which words are compared.
_FIRST, _STEM = 10, 5
#: A heading of one word, as arrow finds it too.
_HEADING = re.compile(r"(?m)^#{1,6} +`?([A-Za-z0-9]+)`?\s*$")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_\W]+")
_WORD = re.compile(r"[\W_]+")
#: What Prometheus puts a label or a value in place of.
_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
#: What operators keep groups of rules in (prometheus-operator.dev and docs.victoriametrics.com, "API").
_RULE_KINDS = frozenset({"PrometheusRule", "VMRule"})
#: Lines of a file that a link of GitHub leads to.
_LINES = re.compile(r"L([0-9]{1,7})(?:C[0-9]+)?(?:-L?[0-9]+(?:C[0-9]+)?)?")
#: What Prometheus puts before a target's own label where its scrape has one of that name.
_EXPORTED = "exported_"
#: Labels that say in which namespace or project the thing is.
_SPACES = ("namespace", "container_label_com_docker_compose_project", "compose_project")
#: Labels that name a thing, the most specific first, and the nodes that each may mean.
_LABELS: Mapping[str, tuple[str, ...]] = {
    # As cAdvisor tells the labels of a container.
    "container_label_com_docker_compose_service": ("Service",),
    "compose_service": ("Service",),
    "container": ("Container", "Service"),
    "container_name": ("Container", "Service"),
    "name": ("Container", "Service"),
    "pod": ("Service", "Container"),
    "service": ("Service", "Container"),
    "app": ("Service",),
    "deployment": ("Service",),
    "statefulset": ("Service",),
    "daemonset": ("Service",),
    "job": ("Service",),
    "host": ("Host", "IP"),
    "hostname": ("Host",),
    "node": ("Host", "IP"),
    "nodename": ("Host",),
    "instance": ("Host", "Service", "Container", "IP"),
}
#: Labels of what a metric is about: where they name another than the job, that is only who tells of it.
_ABOUT = (
    "container_label_com_docker_compose_service",
    *("compose_service", "container", "container_name", "name", "pod"),
    *("deployment", "statefulset", "daemonset", "node", "persistentvolumeclaim"),
)
#: A service's name in a cluster (kubernetes.io, "DNS for Services and Pods").
_IN_CLUSTER = re.compile(r"([a-z0-9-]+)\.([a-z0-9-]+)\.svc(?:\..+)?")
_POD = re.compile(r"-(?:[a-f0-9]{6,10}-[a-z0-9]{5}|[a-z0-9]{5}|[0-9]{1,3})$")
_SINCE, _REMEMBERED_SECONDS = "7d", 60.0


class Alerts:
    """``search``, ``impact``, ``changes``: those of the knowledge base; ``first_ingests``: when the first
    ingest of each source ended. Safe to use from several threads."""

    def __init__(
        self,
        session: Session,
        search: Callable[..., SearchResult],
        impact: Callable[..., Impact],
        changes: Callable[..., DocumentChanges],
        first_ingests: Callable[[], Mapping[str, datetime]],
    ) -> None:
        self._session, self._first_ingests = session, first_ingests
        self._search, self._impact, self._changed_since = search, impact, changes
        self._lock = threading.Lock()
        #: What changed, and until when (monotonic) that is not looked for again.
        self._changed: tuple[float, View, DocumentChanges | None, str] | None = None

    def guide(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> AlertGuide:
        """See ``KnowledgeBase.for_alert``."""
        said, told = _checked("labels", labels), _checked("annotations", annotations)
        if not said and not told:
            raise TabootError(
                "E_QUERY", "labels must name the alert; there are neither labels nor annotations."
            )
        view = self._session.view()
        name = said.get("alertname", "")
        hits = self._search(name, _HITS, mode="keyword").hits if name.strip() else ()
        rules = list(_rules(view, name, hits))
        for rule in rules:
            # Who asks by the alert's name alone has not its annotations.
            told = {k: _TEMPLATE.sub(" ", v)[:_MAX_CHARS] for k, v in rule.annotations.items()} | told
        own = said | {k.removeprefix(_EXPORTED): v for k, v in said.items() if k.startswith(_EXPORTED)}
        things = _things(view, own)
        words = " ".join(
            filter(
                None,
                (_words(name), told.get("summary", ""), told.get("description", told.get("message", ""))),
            )
        )
        things = things or list(_named(view, words, _space(own)))
        notes: list[str] = []
        documents = self._documents(view, name, words, told, things, hits, notes)
        if name and not rules and all(d.why == "text" for d in documents):
            documents = self._alike(name, told.get("summary", ""), things, hits, documents, notes)
        changed, note = self._changes(view)
        doc_ids, names = {d.doc_id for d in documents[:1]}, {t.name for t in things}
        hanging, why = self._hanging(view, things)
        notes += [n for n in (note, why) if n]
        facts = (
            []
            if changed is None
            else [x for x in changed.facts if x.name in names or _of(x.after or x.before, doc_ids)]
        )
        doc_ids |= {d for t in things for d in _stating(view, t)}
        return AlertGuide(
            alertname=name,
            labels=said,
            rules=tuple(rules),
            documents=tuple(documents),
            things=tuple(things[:_THINGS]),
            dependents=tuple(g for g in hanging.groups if not g.how.startswith("shares ")) if hanging else (),
            changes=tuple(x for x in changed.items if x.doc_id in doc_ids)[:_CHANGES] if changed else (),
            facts=tuple(facts[:_CHANGES]),
            notes=tuple(notes),
            unknown=hanging.unknown if hanging else (),
        )

    # --- the documents --------------------------------------------------------------------------------------

    def _documents(
        self,
        view: View,
        name: str,
        words: str,
        annotations: Mapping[str, str],
        things: list[AlertThing],
        hits: Sequence[Hit],
        notes: list[str],
    ) -> list[AlertDocument]:
        """``hits``: where the alert's name stands; ``notes``: what its links do not lead to is put there."""
        table = view.graph.documents
        found: dict[str, AlertDocument] = {}
        for number, fragment, url in _linked(table, annotations):
            if number is None:
                notes.append(f"Its runbook link leads to no document that is known here: {url}")
                continue
            row = table.slice(number, 1).to_pylist()[0]
            place = _place(view, row, _anchor(fragment)) if fragment else None
            if fragment and place is None:
                notes.append(f"{row['path']} has no section #{fragment}, to which its runbook link leads.")
            place = place or _place(view, row, _calls(name)) or {}
            found.setdefault(row["doc_id"], _document(view, row, why="link", **place))
        for row, place in self._called(view, name, hits):
            found.setdefault(row["doc_id"], _document(view, row, why="name", **place))
        for row, place in _akin(view, name, things):
            found.setdefault(row["doc_id"], _document(view, row, why="text", **place))
        query = " ".join(dict.fromkeys([words, *(t.name for t in things[:2])]))
        if query.strip():
            for hit in _by_document(self._search(query, _HITS, content_type=_READ).hits, query):
                row = _row(table, hit.doc_id)
                passage = {"line": hit.line, "section": hit.section, "text": hit.text[:_MAX_CHARS]}
                found.setdefault(hit.doc_id, _document(view, row, why="text", **passage))
        return list(found.values())[:_DOCUMENTS]

    def _called(
        self, view: View, name: str, hits: Sequence[Hit]
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """The documents that are called as the alert is, by file or title, then those of which a section is;
        each with the place of that section."""
        wanted, table = _plain(name), view.graph.documents
        if not wanted:
            return
        for number, (path, title) in enumerate(
            zip(table.column("path").to_pylist(), table.column("title").to_pylist(), strict=True)
        ):
            stem = path.rpartition("/")[2].rpartition(".")[0]
            if wanted in (_plain(stem), _plain(title or "")):
                row = table.slice(number, 1).to_pylist()[0]
                yield row, _place(view, row, _calls(name)) or {}
        # A heading may write the name as words.
        apart = self._search(_words(name), _HITS, mode="keyword").hits
        rows = [_row(table, doc_id) for doc_id in dict.fromkeys(hit.doc_id for hit in (*hits, *apart))]
        for row in sorted(rows, key=lambda r: OF_A_DAY.search(r["path"]) is not None):
            place = _place(view, row, _calls(name))
            if place is not None:
                yield row, place

    def _alike(
        self,
        name: str,
        summary: str,
        things: list[AlertThing],
        hits: Sequence[Hit],
        documents: list[AlertDocument],
        notes: list[str],
    ) -> list[AlertDocument]:
        """Of an alert that no rule raises: the documents whose passage has half of the words of its name or
        of its summary, or names the thing. All of them where some text has its name."""
        if any(name.casefold() in hit.text.casefold() for hit in hits):
            return documents

        def fits(document: AlertDocument) -> bool:
            has = _stems(f"{document.title} {document.section} {document.text}")
            asked = [_stems(text) for text in (_words(name), summary)]
            named = any(_stems(t.name) <= has for t in things)
            return named or any(words and 2 * len(words & has) >= len(words) for words in asked)

        left = [document for document in documents if fits(document)]
        note = f"{name} is not known here: no rule raises it, and no text names it."
        notes.insert(0, f"{note} The documents fit by their words alone." if left else note)
        return left

    # --- what hangs on it, and what changed -----------------------------------------------------------------

    def _hanging(self, view: View, things: list[AlertThing]) -> tuple[Impact | None, str]:
        """What hangs on the first thing of which that can be asked: of a container, on its service."""
        for thing in things:
            asked, kind = (thing.name, None) if thing.label == "IP" else (thing.key, thing.label.lower())
            if thing.label == "Container":
                index = service_index(view)
                services = [n for n, c in index.container_of.items() if index.key(c) == thing.key]
                if not services:
                    continue
                asked, kind = index.key(services[0]), "service"
            try:
                return self._impact(asked, kind=kind), ""
            except TabootError as error:
                return None, f"What hangs on {thing.name} is not known: {error.message}"
        return None, ""

    def _changes(self, view: View) -> tuple[DocumentChanges | None, str]:
        """What changed lately; alerts come in flocks, and it is looked for once a minute."""
        with self._lock:
            now = time.monotonic()
            if self._changed is None or self._changed[0] < now or self._changed[1] is not view:
                made, note = None, ""
                try:
                    made = self._without_first(self._changed_since(_SINCE, limit=10_000))
                except TabootError as error:
                    note = f"What changed is not known: {error.message}"
                self._changed = (now + _REMEMBERED_SECONDS, view, made, note)
            return self._changed[2], self._changed[3]

    def _without_first(self, changed: DocumentChanges) -> DocumentChanges:
        """What changed after each source's first ingest, which brought all of it."""
        first = self._first_ingests()
        new = [x for x in changed.items if x.kind == "new" and x.source in first]
        items = [x for x in changed.items if x not in new]
        # Of what came with the first ingest and was changed since, the log says "new" too.
        for source in sorted({x.source for x in new if x.at > first[x.source]}):
            since = self._changed_since(max(first[source], changed.since), source=source, limit=10_000)
            items = [x for x in items if x.source != source] + list(since.items)
        return changed.model_copy(update={"items": tuple(items)})


def _rules(view: View, name: str, hits: Sequence[Hit]) -> Iterator[AlertRule]:
    """The rules that raise alerts of this name, of the files that are found by it."""
    documents = service_index(view).documents
    found: list[AlertRule] = []
    for doc_id in dict.fromkeys(hit.doc_id for hit in hits):
        document = documents.get(doc_id)
        if document is not None and document.mime == "application/yaml":
            found += _raising(view, document, name)
    yield from found[:_RULES]


def _raising(view: View, document: Document, name: str) -> Iterator[AlertRule]:
    """The rules of a file that raise alerts of a name (prometheus.io, "Alerting rules")."""
    text = service_index(view).text(document.doc_id)
    if name not in text:
        return
    try:
        roots = parse(Origin(document.path, text, ""), Problems())
    except TabootError:
        return
    for group in (g for root in roots for g in _listed(_holder(root), "groups")):
        for rule in _listed(group, "rules"):
            called, expression = rule.scalar("alert"), rule.scalar("expr")
            if called is None or called.text != name:
                continue
            held = rule.scalar("for")
            yield AlertRule(
                doc_id=document.doc_id,
                url=view.document_url(document.doc_id),
                source=document.source,
                path=document.path,
                line=text.count("\n", 0, called.start) + 1,
                expression=" ".join(expression.text.split()) if expression is not None else "",
                held=held.text if held is not None else "",
                labels=_texts(rule.get("labels")),
                annotations=_texts(rule.get("annotations")),
            )


def _holder(root: Node) -> Node:
    """What holds the groups of rules: a file of rules itself, or the specification of an operator's."""
    kind, spec = root.scalar("kind"), root.get("spec")
    return spec if spec is not None and kind is not None and kind.text in _RULE_KINDS else root


def _listed(node: Node, key: str) -> list[Node]:
    held = node.get(key)
    return held.items if held is not None else []


def _texts(node: Node | None) -> dict[str, str]:
    return {k: v.text for k, (_, v) in node.entries.items() if v.text} if node is not None else {}


def _checked(argument: str, given: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(given, Mapping) or not all(isinstance(x, str) for pair in given.items() for x in pair):
        raise TabootError("E_QUERY", f"{argument} must be a mapping of texts.")
    if len(given) > _MOST:
        raise TabootError("E_QUERY", f"{argument} must be at most {_MOST}.")
    return {key[:_MAX_CHARS]: value[:_MAX_CHARS] for key, value in given.items()}


def _words(name: str) -> str:
    """An alert's name as words: ``NodeClockSkewDetected`` as ``Node Clock Skew Detected``."""
    return " ".join(part for part in _CAMEL.split(name) if part)


def _plain(text: str) -> str:
    return _WORD.sub("", text).casefold()


def _linked(table: pa.Table, annotations: Mapping[str, str]) -> Iterator[tuple[int | None, str, str]]:
    """The documents that a link of the annotations leads to, with its fragment: the URL is the document's, or
    ends as its path does, with or without the suffix of the file; of several that end alike none. None for
    a URL that leads to none."""
    paths = [_steps(path) for path in table.column("path").to_pylist()]
    known = table.column("url").to_pylist()
    for name, url in annotations.items():
        url = url.strip()
        if "runbook" not in name.casefold() or any(c.isspace() for c in url):
            continue
        base, _, fragment = url.partition("#")
        if base in known or url in known:
            yield known.index(url if url in known else base), unquote(fragment), url
            continue
        wanted = _steps(unquote(urlsplit(url).path))
        shared = [
            sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(p, wanted, strict=False)))
            for p in paths
        ]
        most = max(shared, default=0)
        if most and shared.count(most) == 1:
            yield shared.index(most), unquote(fragment), url
        elif "://" in url:
            yield None, "", url


def _steps(path: str) -> list[str]:
    """The parts of a path from its end, without the suffix of its file."""
    stem = re.sub(r"\.(?:mdx?|html?|rst|txt|adoc|org)/?$", "", path.casefold())
    return [part for part in reversed(stem.split("/")) if part]


_Wanted = Callable[[list[str]], int | None]


def _calls(name: str) -> _Wanted:
    """Which of some headings is the name of an alert, or has it among other words where it is a made one."""
    wanted = _plain(name)
    made = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])") if len(_words(name).split()) > 1 else None

    def number(headings: list[str]) -> int | None:
        same = (n for n, heading in enumerate(headings) if wanted and _plain(heading) == wanted)
        among = (n for n, heading in enumerate(headings) if made is not None and made.search(heading))
        return next(same, next(among, None))

    return number


def _anchor(fragment: str) -> _Wanted:
    """Which of some headings a fragment leads to: a heading's anchor is made of its letters and digits, and
    of a number where one before it has the same."""
    wanted = _plain(fragment)

    def number(headings: list[str]) -> int | None:
        seen = Counter[str]()
        for n, heading in enumerate(headings):
            anchor = _plain(heading)
            if wanted == (f"{anchor}{seen[anchor]}" if seen[anchor] else anchor):
                return n
            seen[anchor] += 1
        return None

    return number


def _place(view: View, row: Mapping[str, Any], wanted: _Wanted) -> dict[str, Any] | None:
    """The section of a text that is ``wanted`` among its headings: its line, its headings, its text."""
    if is_code(row["mime"]):
        return None
    text = text_of(view, row["doc_id"])
    lines = text.splitlines(keepends=True)
    outline = scan_markdown([line.rstrip("\r\n") for line in lines])
    begins: dict[int, int] = {}
    for at, (kind, section) in enumerate(zip(outline.kinds, outline.section, strict=True)):
        if kind is Kind.HEADING:
            begins.setdefault(section, at)
    sections = list(begins)
    found = wanted([outline.sections[s].rpartition(" > ")[2] for s in sections])
    if found is None:
        return None
    path = outline.sections[sections[found]]
    after = (begins[s] for s in sections[found + 1 :] if not outline.sections[s].startswith(f"{path} > "))
    begin = begins[sections[found]]
    # Only a text that is its file has the lines of it.
    own = row["mime"].startswith("text/") and "html" not in row["mime"]
    said = "".join(lines[begin : next(after, len(lines))]).strip()
    return {"line": begin + 1 if own else None, "section": path, "text": said[:_MAX_CHARS]}


def _names_of_alerts(view: View) -> list[tuple[str, str, frozenset[str]]]:
    """(doc_id, name, its words) of headings and files of running text that are called by one made name of
    several words, as alerts are: ``DockerHostDown``."""
    table, index = view.graph.documents, view.index
    paths = zip(*(table.column(name).to_pylist() for name in ("doc_id", "path", "mime")), strict=True)
    prose = {doc_id: _stem(path) for doc_id, path, mime in paths if not is_code(mime)}
    called = set(prose.items())
    ids, texts = index.documents.column("doc_id").to_pylist(), (s.chunks.column("text") for s in index.shards)
    for start, held in zip(index.starts.tolist(), texts, strict=False):
        rows = pc.indices_nonzero(pc.match_substring_regex(held, _HEADING.pattern)).to_pylist()
        for doc_id, text in ((ids[index.document[start + r]], held[r].as_py()) for r in rows):
            called.update((doc_id, name) for name in _HEADING.findall(text) if doc_id in prose)
    made = [(doc_id, name, frozenset(_stems(name))) for doc_id, name in sorted(called) if name.isalnum()]
    return [found for found in made if len(found[2]) > 1]


def _subject(name: str) -> set[str]:
    return _stems(_words(name).partition(" ")[0])


def _akin(
    view: View, name: str, things: Sequence[AlertThing]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The documents that have, or are, the runbook of an alert whose name has most of the same words, the
    nearest first, each with the place. What kind of thing is meant is a word too; and one of the two names
    begins with a word of the other, since what it is about stands before how that is."""
    known = view.once(_names_of_alerts)
    shared = Counter(word for _, _, words in known for word in words)
    weights = {word: math.log(1 + len(known) / count) for word, count in shared.items()}
    own, kinds = _stems(name) & weights.keys(), _stems(" ".join(t.label for t in things[:1]))
    near: list[tuple[float, str, str]] = []
    for doc_id, called, words in known:
        both = words & (own | kinds)
        worth = sum(weights[w] for w in both) / sum(weights[w] for w in words | own)
        about = words & (_subject(name) | kinds) or own & _subject(called)
        if about and len(both) > 1 and worth >= _AKIN:
            near.append((-worth, doc_id, called))
    for _, doc_id, called in sorted(near)[:_DOCUMENTS]:
        row = _row(view.graph.documents, doc_id)
        place = _place(view, row, _calls(called))
        # A comment of a script in a text is no heading.
        if place is not None or called == _stem(row["path"]):
            yield row, place or {}


def _row(table: pa.Table, doc_id: str) -> dict[str, Any]:
    row: dict[str, Any] = table.slice(pc.index(table.column("doc_id"), doc_id).as_py(), 1).to_pylist()[0]
    return row


def _by_document(hits: Sequence[Hit], words: str) -> list[Hit]:
    """The best hit of each document. First come those that are found first, whose file and title are made of
    the alert's words, and that are for the moment rather than for the record.
    """
    best: dict[str, tuple[int, Hit]] = {}
    for rank, hit in enumerate(hits):
        best.setdefault(hit.doc_id, (rank, hit))
    runbooks = word_list("taboot_pipelines.retrieval", "runbooks.txt")
    names = {doc_id: _stems(f"{hit.title} {_stem(hit.url)}") for doc_id, (_, hit) in best.items()}
    shared = Counter(word for name in names.values() for word in name)
    asked = _stems(words)

    def worth(doc_id: str) -> float:
        rank, hit = best[doc_id]
        # A word that all of them are called by tells none from another.
        weights = {word: math.log(1 + len(best) / shared[word]) for word in names[doc_id]}
        covered = sum(w for word, w in weights.items() if word in asked) / (sum(weights.values()) or 1.0)
        called = _plain(f"{hit.url} {hit.title}")
        purpose = _RUNBOOK_WEIGHT if any(word in called for word in runbooks) else 1.0
        record = _RECORD_WEIGHT if OF_A_DAY.search(hit.url) else 1.0
        return (_FIRST / (_FIRST + rank) + covered) * purpose * record

    return [best[doc_id][1] for doc_id in sorted(best, key=lambda d: -worth(d))]


def _stem(url: str) -> str:
    return url.rpartition("/")[2].rpartition(".")[0]


def _stems(text: str) -> set[str]:
    """The words of a text, of which names are made too, by their beginnings."""
    return {w.casefold()[:_STEM] for w in _CAMEL.split(text) if w}


def _document(view: View, row: Mapping[str, Any], **told: Any) -> AlertDocument:
    url = view.shown_url(row["source_id"], row["path"], row["url"])
    known = {
        "doc_id": row["doc_id"],
        "title": row["title"] or "",
        "source": row["source_id"],
        "path": row["path"],
    }
    return AlertDocument(**known, url=url, **told)


# --- The things


def _things(view: View, labels: Mapping[str, str]) -> list[AlertThing]:
    """The nodes that labels name, the most specific label first. The job is none of them where another label
    names what its metrics are about; and where the instance is a machine, that comes first but of an alert
    that has the job in its name."""
    job = labels.get("job", "").rpartition("/")[2]
    about = [labels[key] for key in _ABOUT if labels.get(key)]
    others = bool(about) and not any(v == job or v.startswith(f"{job}-") for v in about)
    meant = {
        key: list(_meant(view, key, labels))
        for key in _LABELS
        # An operator calls a job as the service is that is asked.
        if labels.get(key) and not (others and (key == "job" or (key == "service" and labels[key] == job)))
    }
    index = service_index(view)
    machines = {t.key for t in meant.get("instance", ()) if t.label == "Host"}
    for thing in meant.get("instance", ()):
        if thing.label == "IP":
            edges = (e for n in _found(view, "IP", thing.key) for e in index.into(n, "RESOLVES_TO"))
            machines |= {index.key(e.start) for e in edges}
    if machines and not others:
        elsewhere = set(map(index.key, index.of_label("Host"))) - machines
        # What answers at a machine's address runs there.
        meant = {
            k: [t for t in found if (t.scope or "").rpartition("/")[0] not in elsewhere]
            for k, found in meant.items()
        }
        if not _stems(job) <= _stems(labels.get("alertname", "")):
            meant = {"instance": meant["instance"], **meant}
    claim = labels.get("persistentvolumeclaim", "")
    claiming = _claiming(view, claim, _space(labels)) if claim else ()
    seen: dict[tuple[str, str], AlertThing] = {}
    for thing in chain(*meant.values(), claiming):
        seen.setdefault((thing.label, thing.key), thing)
    return list(seen.values())


def _meant(view: View, key: str, labels: Mapping[str, str]) -> list[AlertThing]:
    """The nodes that one label names."""
    for name, space in _spellings(key, labels[key]):
        # What asks for metrics may be of another namespace than what it asks.
        space = space or _space(labels)
        found = [thing for kind in _LABELS[key] for thing in _nodes(view, kind, name, key, space)]
        if found:
            return found
    return list(_releasing(view, labels[key], key, _space(labels))) if "Service" in _LABELS[key] else []


def _space(labels: Mapping[str, str]) -> str:
    return next((labels[key] for key in _SPACES if labels.get(key)), "")


def _spellings(key: str, value: str) -> Iterator[tuple[str, str]]:
    """What a label's value may be called in the graph, and the namespace that it says itself: an instance
    without its port, a pod without what its controller added, a job without its namespace, a service without
    the provider that Traefik knows it of."""
    if not value:
        return
    yield value, ""
    if key in ("instance", "node", "host"):
        name = value.rpartition("://")[2].partition("/")[0]
        # What is no address yet may be one with a port.
        name = name if is_ip(name) or not re.search(r":[0-9]+$", name) else name.rpartition(":")[0]
        name = name.strip("[]").casefold()
        yield name, ""
        in_cluster = _IN_CLUSTER.fullmatch(name)
        if not is_ip(name):
            yield (in_cluster[1], in_cluster[2]) if in_cluster else (name.partition(".")[0], "")
    elif key == "pod":
        while (shorter := _POD.sub("", value)) != value:
            yield shorter, ""
            value = shorter
    elif key == "job" and "/" in value:
        yield value.rpartition("/")[2], value.partition("/")[0]
    elif key == "service" and "@" in value:
        yield value.partition("@")[0], ""


def _nodes(view: View, label: str, name: str, said_by: str, space: str) -> Iterator[AlertThing]:
    """The nodes of a name; none of another namespace or project than ``space``, where there is one. An
    address is the machine that has it; a service that is only named is the machine that is called so, if
    something runs there; a container that runs is the one that is declared."""
    index = service_index(view)
    numbers = _found(view, label, name)
    if label == "Container":
        numbers = [n for n in numbers if index.properties(n).get("declared", True)] or numbers
    for number in numbers:
        node = view.graph.node(number)
        if space and node.scope and node.scope.rpartition("/")[2] != space:
            continue
        if label == "IP":
            machine = machine_of(index, {e.start for e in index.into(number, "RESOLVES_TO")})
            number = number if machine is None else machine
        elif label == "Service" and not node.scope:
            number = next((n for n in _found(view, "Host", name) if index.into(n, "RUNS")), number)
        node = view.graph.node(number)
        yield AlertThing(label=node.label, key=node.key, name=node.name, scope=node.scope, said_by=said_by)


def _found(view: View, label: str, name: str) -> list[int]:
    try:
        return [int(n) for n in view.graph.find(name, label)]
    except TabootError:
        return []


def _releasing(view: View, name: str, said_by: str, space: str) -> Iterator[AlertThing]:
    """The release of a namespace whose chart calls a thing so: its names begin with the release's (helm.sh,
    "Best practices: templates"); of several the longest."""
    services = service_index(view).services.values()
    of = [s for s in services if space and s.project == space and s.properties.get("chart")]
    for one in sorted(of, key=lambda s: -len(s.name)):
        if name.startswith(f"{one.name}-"):
            yield from _nodes(view, "Service", one.name, said_by, space)
            return


def _claiming(view: View, claim: str, space: str) -> Iterator[AlertThing]:
    """The services of a namespace that mount a claim, or for whose pods a StatefulSet made it: its name is
    that of a template, of the set and of the pod."""
    index = service_index(view)
    config = config_entries(view)
    for service in index.services.values():
        if service.project != space:
            continue
        made = re.search(rf"(?:^|-){re.escape(service.name)}-[0-9]+$", claim)
        mounts = (e.value for e in config.of_service(service) if "volumes" in e.value.path)
        if made or any(v.value.partition(":")[0] == claim for v in mounts):
            yield from _nodes(view, "Service", service.name, "persistentvolumeclaim", space)


def _named(view: View, text: str, space: str) -> Iterator[AlertThing]:
    """The services that the alert's words surely name."""
    from taboot_pipelines.retrieval.answering.fact_answers import names_in

    for name in dict.fromkeys(n.text for n in names_in(view, text)):
        yield from _nodes(view, "Service", name, "text", space)


def _stating(view: View, thing: AlertThing) -> list[str]:
    """The documents that state a thing."""
    nodes = view.graph.nodes
    mask = pc.and_(pc.equal(nodes.column("label"), thing.label), pc.equal(nodes.column("key"), thing.key))
    at = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
    return list(nodes.column("doc_ids")[int(at[0])].as_py()) if len(at) else []


def _of(side: Any, doc_ids: set[str]) -> bool:
    return side is not None and side.doc_id in doc_ids
