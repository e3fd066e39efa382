"""What the text of a service's declaration says of a port, beside what its edges say."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from taboot_pipelines.knowledge.drift.declared import Service
from taboot_pipelines.knowledge.drift.facts import Fact, Texts
from taboot_pipelines.knowledge.drift.ports import blank, names_number

_SERVICES = re.compile(r"(?m)^services:[ \t]*(?:#.*)?$")
_LINE = re.compile(r"(?m)^(?P<indent>[ \t]*)(?P<rest>[^\s#].*)$")
#: What takes in values that stand elsewhere: aliases, merge keys, other services, other files.
_ELSEWHERE = re.compile(r"(?m)(?:^|[:\[,-])\s*\*\w|<<\s*:|^\s*(?:extends|env_file|configs|secrets)\s*:")


def names_port(service: Service, port: int, own: Iterable[Fact], text: Texts) -> bool:
    """Whether the files that declare a service give it a port in another way than by ``own`` and by what it
    publishes: in its environment, its command, a health check, a comment.

    Other services of a file have ports of their own, so of a Compose file only the service's part counts,
    where the whole of its declaration stands there for certain.
    """
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for fact in (*own, *service.binds()):
        spans[fact.doc_id] += fact.spans
    for doc_id in sorted(service.documents):
        whole = text(doc_id)
        begin, end = _part(whole, service.name)
        if names_number(blank(whole, spans[doc_id])[begin:end], port):
            return True
    return False


def _part(text: str, name: str) -> tuple[int, int]:
    """Where a Compose file in block style declares a service; the whole text where that is not sure."""
    whole = 0, len(text)
    services = _SERVICES.search(text)
    if services is None:
        return whole
    deep: str | None = None
    begin = None
    for line in _LINE.finditer(text, services.end()):
        if deep is None:
            deep = line["indent"]
        if len(line["indent"]) > len(deep) and begin is not None:
            continue
        if begin is not None:
            part = text[begin : line.start()]
            return whole if _ELSEWHERE.search(part) else (begin, line.start())
        if len(line["indent"]) < len(deep) or not deep:
            return whole
        if line["indent"] == deep and re.fullmatch(
            rf"[\"']?{re.escape(name)}[\"']?\s*:\s*(?:#.*)?", line["rest"]
        ):
            begin = line.start()
    return whole if begin is None or _ELSEWHERE.search(text[begin:]) else (begin, len(text))
