"""The forms in which a tailnet is written down, told by what a JSON or HuJSON text holds, never by its name.

Field names are compared without case and underscores, since the same things are ``nodeId``, ``node_id`` and
``NodeID`` in Tailscale's API, Headscale's command line and Tailscale's own types.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import StrEnum

from taboot_pipelines.model.json_text import Value


class Form(StrEnum):
    """What a whole text is."""

    #: A recording of headscale's policy tests, which is a tailnet by itself.
    CAPTURE = "capture"
    #: A netmap, or an answer to a map request.
    NETMAP = "netmap"
    #: ``tailscale status --json``.
    STATUS = "status"
    #: One device of Tailscale's API, or one node of Headscale's, bare or under its name.
    DEVICE = "device"
    #: Devices, users or routes under their names, as APIs give them.
    LISTS = "lists"
    #: The same without a name around them, as Headscale's command line gives them.
    BARE_LIST = "bare list"
    USER = "user"
    POLICY = "policy"
    #: An object that holds the text of a policy.
    POLICY_TEXT = "policy text"
    #: DNS, or the routes of a device that it does not name: of a tailnet, and no fact by itself.
    SETTINGS = "settings"


#: Fields of a device in any of the forms, of a user, and of a route that stands apart from its device.
_DEVICE = frozenset(("addresses", "ipaddresses", "tailscaleips", "nodekey", "machinekey"))
_USER = frozenset(("loginname", "profilepicurl"))
_ROUTE = frozenset(("prefix",))
_STATUS = frozenset(("backendstate", "magicdnssuffix"))
_LISTS = frozenset(("devices", "nodes", "machines", "users", "routes"))
_ONE = frozenset(("node", "device", "machine"))
# fmt: off
#: Sections that nothing but a policy has. What others have too (groups, hosts, tests) is looked into.
_POLICY = frozenset((
    "acls", "grants", "tagowners", "autoapprovers", "nodeattrs", "sshtests", "ipsets", "postures",
    "defaultsrcposture", "attrconfig", "onecgnatroute", "randomizeclientport",
))
_SETTINGS = frozenset((
    "dns", "nameservers", "magicdns", "searchpaths", "splitdns", "preferences", "resolvers", "enabledroutes",
    "advertisedroutes",
))
# fmt: on


def fields(value: Value) -> Mapping[str, Value]:
    """The members of an object by name without case and underscores."""
    return {name.replace("_", "").lower(): member for name, member in value.members().items()}


def form_of(root: Value) -> Form | None:
    """The form of a whole text; None where it is of no tailnet that is known."""
    if isinstance(root.data, list):
        return Form.BARE_LIST if _is_list(root) else None
    if not isinstance(root.data, dict):
        return None
    known_by = fields(root)
    names = known_by.keys()
    if {"captures", "topology"} & names:
        return Form.CAPTURE
    if "selfnode" in names or "stableid" in _within(known_by, "node"):
        return Form.NETMAP
    if _STATUS & names or _DEVICE & _within(known_by, "self"):
        return Form.STATUS
    if any(_is_list(known_by[name]) for name in _LISTS & names):
        return Form.LISTS
    if _DEVICE & names or any(_DEVICE & _within(known_by, name) for name in _ONE):
        return Form.DEVICE
    if _USER & names:
        return Form.USER
    if _POLICY & names or _has_sections(known_by):
        return Form.POLICY
    if isinstance(known_by.get("policy", known_by.get("acl", root)).data, str):
        return Form.POLICY_TEXT
    # Split DNS is domains with their resolvers, and nothing where there are none.
    split = all(
        "." in name and (value.data is None or isinstance(value.data, list))
        for name, value in root.members().items()
    )
    return Form.SETTINGS if _SETTINGS & names or split else None


def _within(known_by: Mapping[str, Value], name: str) -> Set[str]:
    """The names of the fields of a member."""
    return fields(known_by[name]).keys() if name in known_by else frozenset()


def _is_list(value: Value) -> bool:
    """Whether it lists devices, users or routes, or nothing at all."""
    items = [fields(item).keys() for item in value.items()]
    return isinstance(value.data, list) and (
        not items or any((_DEVICE | _ROUTE) & names or is_user(names) for names in items)
    )


def is_user(names: Set[str]) -> bool:
    """Whether something with these fields is a user; Headscale's command line leaves out what is empty."""
    return bool(_USER & names) or ({"id", "name", "createdat"} <= names and not _DEVICE & names)


def _has_sections(known_by: Mapping[str, Value]) -> bool:
    """Whether an object has a section of a policy that is known by what stands in it."""
    groups = known_by["groups"].members() if "groups" in known_by else {}
    rules = known_by["ssh"].items() if "ssh" in known_by else []
    return any(name.startswith("group:") for name in groups) or any(rule.at("src") for rule in rules)
