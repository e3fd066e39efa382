"""Addresses of DNS names, as a sentence tells them: RESOLVES_TO."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from taboot_pipelines.extraction.tier_b import modality
from taboot_pipelines.extraction.tier_b.clauses import Clauses
from taboot_pipelines.extraction.tier_b.names import Mention
from taboot_pipelines.extraction.tier_b.triple import Triple

if TYPE_CHECKING:
    from spacy.tokens import Token

#: What stands between a name and its address, or before both of them.
_LEADS = re.compile(
    r"(?i)\b(?:resolv\w+|points?|pointing|pointed|leads?|belongs|translates?|set)\s+(?:only\s+)?(?:to|at)\b|→|->|=>|"
    r"\brecords?\s+(?:for|of|to|with|says?|is|:)|\b(?:has|have) the address\b"
)
_SUPPOSES = re.compile(r"(?i)\b(?:if|would|could|might|suppose|given|imagine|consider|let's|assum\w+)\b")
_TAKES = re.compile(r"(?i)\b(?:translates?|maps?|resolves?|points?)\s+(?:the (?:host )?name\s+)?`?$")
_AS_WELL = re.compile(r"(?i)\b(?:as do(?:es)?|and so do(?:es)?|just like|like)\b")


class Records:
    """The names and addresses of one sentence."""

    def __init__(self, clauses: Clauses) -> None:
        self._names = clauses.names
        self._sentence = clauses.sentence

    def triples(self) -> Iterator[Triple]:
        """Each name with the addresses that the sentence says it has."""
        if "CNAME" in self._sentence.text or _SUPPOSES.search(self._sentence.text):
            return  # An alias of another name; what is only supposed.
        if modality.gives_example(self._sentence) or modality.is_past(self._sentence) or not self._is_told():
            return
        hosts: list[Mention] = []
        addresses: list[Mention] = []
        since = self._sentence.start
        told = False
        for token in self._sentence:
            found = self._named(token)
            if found is None:
                continue
            if found.kind == "host" and token.nbor(1 if token.i + 1 < len(token.doc) else 0).text != "(":
                if addresses and _AS_WELL.search(self._names.doc[since : token.i].text):
                    yield Triple("RESOLVES_TO", found, addresses[-1], "record")
                    continue
                if addresses:
                    hosts, addresses = [], []
                hosts.append(found)
                since = token.i + 1
            elif found.kind == "ip" and "/" not in found.text and hosts:
                between = self._names.doc[since : token.i].text
                before = self._names.doc[self._sentence.start : since - 1].text
                taken = between.strip(" `") == "to" and _TAKES.search(before) is not None
                listed = bool(addresses) and between.strip() in (",", "and", ", and")
                gapped = told and between.strip(" `") in ("to", "at")
                if self._asserts(token) and (taken or listed or gapped or _LEADS.search(between)):
                    told = True
                    addresses.append(found)
                    since = token.i + 1
                    for host in hosts:
                        yield Triple("RESOLVES_TO", host, found, "record")

    def _named(self, token: Token) -> Mention | None:
        if self._names.kind(token) not in ("host", "ip", "code"):
            return None
        if token.text.strip("`").startswith("*"):
            return None  # A wildcard is no name of a machine.
        if _is_dns_name(token.text.strip("`")):
            return self._names.mention(token, token, "host", sure=True)
        return self._names.of(token)

    def _asserts(self, address: Token) -> bool:
        """Whether the verb that leads to an address says that it is so."""
        verb = next((a for a in address.ancestors if a.pos_ in ("VERB", "AUX")), None)
        return verb is None or modality.states(verb)

    def _is_told(self) -> bool:
        """Whether the sentence says that it is so, and gives no order."""
        for token in self._sentence:
            if token.pos_ in ("VERB", "AUX") and token.dep_ in ("ROOT", "conj", "ccomp"):
                if modality.is_order(token) or modality.is_negated(token) or modality.in_condition(token):
                    return False
                if modality.modals(token) & {"could", "may", "might", "would", "should", "must", "can"}:
                    return False
                if token.tag_ == "VBD" and token.dep_ == "ROOT":
                    return False
        return True


def _is_dns_name(text: str) -> bool:
    return re.fullmatch(r"(?:[A-Za-z0-9_-]{1,63}\.)+[A-Za-z]{2,24}|[a-z0-9-]+\.test", text) is not None
