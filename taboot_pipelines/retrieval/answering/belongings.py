"""The values of configuration that belong to a thing: to a service in every file of its project, to a file,
to a network or volume, each with its variables told where the graph or the file itself knows them.
"""

from __future__ import annotations

import posixpath
import re
from collections import OrderedDict
from collections.abc import Collection, Iterable

from taboot_pipelines.retrieval.answering.config_files import SETTING, ConfigFile, Placed, Value, read
from taboot_pipelines.retrieval.answering.house import Document, House, Service, distinct
from taboot_pipelines.retrieval.answering.statements import Cite

#: Files that are kept parsed.
_MAX_FILES = 2000


class Belongings:
    """The configuration documents of one house, parsed when a question needs them."""

    def __init__(self, house: House) -> None:
        self.house = house
        self._files: OrderedDict[str, ConfigFile] = OrderedDict()

    def file(self, doc_id: str) -> ConfigFile:
        known = self._files.get(doc_id)
        if known is None:
            document = self.house.documents[doc_id]
            known = read(doc_id, document.path, document.mime, self.house.text(doc_id))
            self._files[doc_id] = known
            while len(self._files) > _MAX_FILES:
                self._files.popitem(last=False)
        return known

    def of_service(self, service: Service) -> list[Placed]:
        """The values of a service: its own in every file of its project, then those that it extends."""
        found: list[Placed] = []
        for doc_id in self.house.declaring(service):
            self._of_service(service, doc_id, service.name, found, set())
        return found

    def _of_service(
        self, service: Service, doc_id: str, name: str, found: list[Placed], seen: set[tuple[str, str]]
    ) -> None:
        if (doc_id, name) in seen or len(seen) > 16:
            return
        seen.add((doc_id, name))
        file, document = self.file(doc_id), self.house.documents[doc_id]
        held = {p.value.path[p.lead :] for p in found}
        for value in file.values:
            if len(value.path) <= 2 or value.path[:2] != ("services", name):
                continue
            adds = value.path[2] in ("volumes", "extra_hosts")
            if len(seen) == 1 or adds or value.path[2:] not in held:
                found.append(Placed(document, value, 2, name, self._known(service, value)))
        if name in file.extends:
            path, other = file.extends[name]
            target = posixpath.normpath(posixpath.join(posixpath.dirname(document.path), path))
            other_doc = self.house.by_path.get((document.source, target)) if path else doc_id
            if other_doc is not None:
                self._of_service(service, other_doc, other, found, seen)

    def _known(self, service: Service, value: Value) -> str:
        """What the graph knows a value to be that is written with variables: it was read with those of the
        project's ``.env``. Empty where nothing says so."""
        if "$" not in value.value or len(value.path) != 3:
            return ""
        key = value.path[2]
        if key == "image":
            edges = [e for e in self.house.out(service.number, "BUILDS") if e.method == "compose_image"]
            return str(self.house.properties(edges[0].end).get("reference") or "") if edges else ""
        if key == "ports":
            at = {
                f"{e.properties['port']}:{e.properties.get('targetPort') or e.properties['port']}"
                for e in self.house.out(service.number, "BINDS")
                if e.line == value.line
            }
            return at.pop() if len(at) == 1 else ""
        return str(service.properties.get({"container_name": "containerName"}.get(key, key)) or "")

    def whole(self, service: Service) -> bool:
        """Whether all that a service is declared with is known: no file that it extends is missing."""
        documents = self.house.declaring(service)
        for doc_id in documents:
            path, _ = self.file(doc_id).extends.get(service.name, ("", ""))
            document = self.house.documents[doc_id]
            target = posixpath.normpath(posixpath.join(posixpath.dirname(document.path), path))
            if path and (document.source, target) not in self.house.by_path:
                return False
        return bool(documents)

    def of_document(self, doc_id: str) -> list[Placed]:
        """The values of a file. What leads to one is its service, in an nginx conf the blocks around it."""
        document = self.house.documents[doc_id]
        nginx = document.mime == "text/x-nginx-conf"
        found = []
        for value in self.file(doc_id).values:
            path, service = value.path, ""
            if nginx:
                lead = len(path) - (2 if len(path) > 1 and path[-2] in SETTING else 1)
            elif path and path[0] == "services" and len(path) > 2:
                lead, service = 2, path[1]
            else:
                lead = 0
            known, also = _set_in(self.file(doc_id), document, value) if nginx else ("", ())
            found.append(Placed(document, value, lead, service, known, also))
        return found

    def under_name(self, names: Iterable[str], doc_ids: Iterable[str]) -> list[Placed]:
        """The values under a top-level section's entry of one of these names (a network, a volume)."""
        wanted = {n.lower() for n in names}
        return [
            Placed(self.house.documents[doc_id], v, 2)
            for doc_id in doc_ids
            for v in self.file(doc_id).values
            if len(v.path) > 2
            and v.path[0] in ("networks", "volumes", "secrets", "configs")
            and v.path[1].lower() in wanted
        ]


def of_servers(values: list[Placed], hosts: Collection[str]) -> list[Placed]:
    """The values of an nginx conf in the servers of some host names, which its other servers do not share;
    all of a file that has none of these."""
    blocks = {
        p.value.path[: p.lead]
        for p in values
        if p.value.path[-1] == "server_name" and p.lead and not {*p.value.value.split()}.isdisjoint(hosts)
    }
    held = [p for p in values if any(p.value.path[: len(b)] == b for b in blocks)]
    return held or values


_SET_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


def _set_in(file: ConfigFile, document: Document, value: Value) -> tuple[str, tuple[Cite, ...]]:
    """A value of an nginx conf with the variables that ``set`` gives it in its block or around it, and where
    these are set; empty where one of its variables comes from elsewhere."""
    names = _SET_VARIABLE.findall(value.value)
    if not names or value.path[-2:-1] == ("set",):
        return "", ()
    block = value.path[: -2 if value.path[-2:-1] and value.path[-2] in SETTING else -1]
    held = {
        v.path[-1]: v
        for v in sorted(file.values, key=lambda v: len(v.path))
        if v.path[-2:-1] == ("set",) and v.path[:-2] == block[: len(v.path) - 2]
    }
    if not all(n in held and "$" not in held[n].value for n in names):
        return "", ()
    known = _SET_VARIABLE.sub(lambda m: held[m[1]].value, value.value)
    return known, tuple(Placed(document, held[n], 0).cite for n in distinct(names))
