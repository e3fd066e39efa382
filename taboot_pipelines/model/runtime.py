"""The forms in which engines and machines say what runs, told by what a text holds, never by its name."""

from __future__ import annotations

import re
from enum import StrEnum

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.json_text import Value, parse


class Form(StrEnum):
    """What a whole text is."""

    #: ``docker inspect``, ``podman inspect``, ``/containers/ID/json`` of Docker's API.
    INSPECT = "inspect"
    #: ``docker ps --format json``, ``podman ps --format json``, ``/containers/json``.
    LISTING = "listing"
    #: ``kubectl get … -o json``.
    CLUSTER = "cluster"
    #: ``ss -tlnp`` and ``ss -ulnp``.
    SOCKETS = "sockets"
    #: ``systemctl show``.
    UNITS = "units"
    #: ``nginx -T``.
    NGINX = "nginx"

    @property
    def is_json(self) -> bool:
        return self in (Form.INSPECT, Form.LISTING, Form.CLUSTER)

    @property
    def mime(self) -> str:
        """The content type of documents of this form."""
        if self.is_json:
            return "application/json"
        return "text/x-nginx-conf" if self is Form.NGINX else "text/x-ini"


#: Kinds of Kubernetes that are pods, or say how many of them are to run.
WORKLOADS = frozenset({"Deployment", "StatefulSet", "DaemonSet"})
_SOCKETS = re.compile(r"\s*(?:Netid\s+)?State\s+Recv-Q\s+Send-Q\s+Local Address:Port\b")
_UNIT = re.compile(r"^Id=\S+\.[a-z]+\r?$", re.MULTILINE)
_ACTIVE = re.compile(r"^ActiveState=[a-z-]+\r?$", re.MULTILINE)
NGINX_FILE = re.compile(r"^# configuration file (?P<path>\S+):[ \t]*\r?$", re.MULTILINE)


def form_of(text: str) -> Form | None:
    """The form of a text; None if it is of none. Raises ``E_PARSE`` for JSON that breaks off."""
    if text.lstrip("\ufeff \t\r\n")[:1] in ("[", "{"):
        return next((found for value in objects_of(text) if (found := _of_object(value))), None)
    if NGINX_FILE.search(text):
        return Form.NGINX
    if _SOCKETS.match(text):
        return Form.SOCKETS
    return Form.UNITS if _UNIT.search(text) and _ACTIVE.search(text) else None


def objects_of(text: str) -> list[Value]:
    """The objects that a text of JSON lists: of an array, of a list of Kubernetes, of one line each, or the
    one that it is. Raises ``E_PARSE``."""
    start = len(text) - len(text.lstrip("\ufeff"))
    try:
        root = parse(text, start=start)
    except TabootError:
        lines = list(re.finditer(r"^[ \t]*\{.*\}[ \t]*\r?$", text, re.MULTILINE))
        if len(lines) < 2:
            raise
        return [parse(text, start=line.start(), end=line.end()) for line in lines]
    if isinstance(root.data, list):
        return root.items()
    return root.items("items") if root.string("kind").endswith("List") else [root]


def _of_object(value: Value) -> Form | None:
    if value.string("apiVersion"):
        return Form.CLUSTER if value.string("kind") in {"Pod", *WORKLOADS} else None
    if not (value.string("Id") or value.string("ID")):
        return None
    if value.members("State") and (value.members("HostConfig") or value.members("Config")):
        return Form.INSPECT
    named = value.string("Names") or value.items("Names")
    return Form.LISTING if named and value.string("Image") else None
