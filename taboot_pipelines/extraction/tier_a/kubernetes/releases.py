"""What GitOps tools are told to run: charts, with what they bring and connect to by their values, and what
Flux' HelmReleases and Kustomizations wait for.

Reference: the API references of helm.toolkit.fluxcd.io, kustomize.toolkit.fluxcd.io and argoproj.io.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder
from taboot_pipelines.extraction.tier_a.kubernetes.objects import (
    Object,
    Surroundings,
)
from taboot_pipelines.extraction.tier_a.kubernetes.placements import DEFAULT_NAMESPACE
from taboot_pipelines.extraction.tier_a.kubernetes.values import (
    VALUES,
    claim_brought,
    claim_values,
    values_of,
)
from taboot_pipelines.extraction.tier_a.kubernetes.workloads import claim_reach, configured, service_ref
from taboot_pipelines.extraction.tier_a.yaml_nodes import Node, documents, is_open, listed, told
from taboot_pipelines.model.graph import SCHEMA_VERSION
from taboot_pipelines.model.records import NodeRef

_FLUX = {"HelmRelease": "helm.toolkit.fluxcd.io", "Kustomization": "kustomize.toolkit.fluxcd.io"}


def is_of_flux(one: Object) -> bool:
    return _FLUX.get(one.kind) == one.group


def claim_of_flux(claims: ClaimBuilder, one: Object, surroundings: Surroundings) -> None:
    """A HelmRelease with its values, or a Kustomization that waits for another; that is a folder of
    manifests, and declares no service, however it is called."""
    spec = one.spec
    waited = listed(spec, "dependsOn")
    released = one.kind == "HelmRelease"
    if not (waited or released):
        return
    # What it brings goes first: the workload that is called as the release knows more of it.
    rest = _claim_brought(claims, one, surroundings) if released else None
    start = claims.node(
        service_ref(claims, one.namespace, one.name.text),
        one.name,
        {"schemaVersion": SCHEMA_VERSION, "chart": _chart(one, surroundings)} if released else {},
        declared=released,
    )
    if released and start is not None:
        _claim_release(claims, start, one, rest, surroundings)
    for item in waited:
        name, namespace = item.scalar("name"), item.scalar("namespace")
        if name is None:
            continue
        if is_open(name.text) or (namespace is not None and is_open(namespace.text)):
            claims.problem(item, "E_UNRESOLVED", "what is waited for is yet to be put in.")
            continue
        end = service_ref(claims, one.namespace if namespace is None else namespace.text, name.text)
        if end != start:
            # It is applied once the other is ready, and not before.
            claims.edge(
                "DEPENDS_ON",
                start,
                claims.node(end, name),
                name,
                "flux_depends_on",
                kind="need",
                condition="ready",
            )


def _chart(one: Object, surroundings: Surroundings) -> str | None:
    """The chart that a HelmRelease installs by its name (``spec.chart.spec.chart``), or the last part of the
    address of the repository that it names, which holds that chart alone (``spec.chartRef``)."""
    spec = one.spec
    chart, named = (spec.get(key) if spec is not None else None for key in ("chart", "chartRef"))
    if chart is not None or named is None:
        return _named_chart(chart.get("spec")) if chart is not None else None
    namespace, name = told(named.scalar("namespace"), one.namespace), told(named.scalar("name"), "")
    held = surroundings.repository(namespace, name)
    said = held.get("spec") if held is not None else None
    url = told(said.scalar("url"), "") if said is not None else ""
    return posixpath.basename(url.rstrip("/")) or None


def _named_chart(source: Node | None) -> str | None:
    """The name of a chart in a repository; one that is a folder is called by its last part."""
    chart = source.scalar("chart") if source is not None else None
    return (
        posixpath.basename(chart.text.rstrip("/")) if chart is not None and not is_open(chart.text) else None
    )


def _claim_brought(claims: ClaimBuilder, one: Object, surroundings: Surroundings) -> Node | None:
    """The objects that a HelmRelease brings by its own values; returns those that are not spent on them. They
    are of its own namespace as it is, wherever they are put, so that a release is one service."""
    spec = one.spec
    if spec is None:
        return None
    named = spec.scalar("releaseName")
    release = named if named is not None and not is_open(named.text) else one.name
    return claim_brought(claims, spec.get("values"), release, one.namespace, surroundings)


def _claim_release(
    claims: ClaimBuilder, service: NodeRef, one: Object, values: Node | None, surroundings: Surroundings
) -> None:
    """What a HelmRelease connects to by ``values``, and by those in ConfigMaps. Its objects are in the
    namespace that it names, and it answers there to its own name and to that of its release."""
    spec = one.spec
    target = spec.scalar("targetNamespace") if spec is not None else None
    named = spec.scalar("releaseName") if spec is not None else None
    namespace = told(target, one.namespace)
    # What Flux calls a release that is put elsewhere (fluxcd.io, "HelmRelease: Release name").
    elsewhere = one.name.text if target is None else f"{namespace}-{one.name.text}"
    names = dict.fromkeys([one.name.text, told(named, elsewhere)])
    claim_reach(claims, service, namespace, one.name, *names, pattern=True)
    for item in listed(spec, "valuesFrom"):
        kind, key = item.scalar("kind"), item.scalar("valuesKey")
        if kind is not None and kind.text == "ConfigMap":
            wanted = key.text if key is not None else VALUES
            for _, text in configured(item, one.namespace, surroundings, wanted):
                claim_values(claims, service, values_of(text), namespace, surroundings)
    claim_values(claims, service, values_of(values), namespace, surroundings)


def claim_application(claims: ClaimBuilder, one: Object, surroundings: Surroundings) -> None:
    """An Application of Argo CD that gives values to charts: a service, which connects by them."""
    spec = one.spec
    source, destination = (spec.get(key) if spec is not None else None for key in ("source", "destination"))
    sources = [*([source] if source is not None else []), *listed(spec, "sources")]
    charts = [chart for each in sources if (chart := each.get("helm")) is not None]
    if not charts:
        return
    written = destination.scalar("namespace") if destination is not None else None
    namespace = written.text if written is not None else DEFAULT_NAMESPACE
    given = [chart.get(key) for chart in charts for key in ("valuesObject", "values")]
    given += [file for chart in charts for file in _value_files(claims, chart)]
    rests = [claim_brought(claims, values, one.name, namespace, surroundings) for values in given]
    service = claims.node(
        service_ref(claims, namespace, one.name.text),
        one.name,
        {"schemaVersion": SCHEMA_VERSION, "chart": next(filter(None, map(_named_chart, sources)), None)},
        declared=True,
    )
    if service is None:
        return
    releases = (chart.scalar("releaseName") for chart in charts)
    names = dict.fromkeys([one.name.text, *(told(name, one.name.text) for name in releases)])
    claim_reach(claims, service, namespace, one.name, *names, pattern=True)
    for rest in rests:
        claim_values(claims, service, values_of(rest), namespace, surroundings)


#: A file of another source of the same Application; nearly always of the repository that this one is in.
_OF_REFERENCE = re.compile(r"\$[\w-]+/")


def _value_files(claims: ClaimBuilder, chart: Node) -> Iterator[Node]:
    """The values in files of the repository that an Application gives to a chart, whose path begins with the
    name of the source that they are from; those of a chart's own folder are said with that chart."""
    files = chart.get("valueFiles")
    for file in files.each() if files is not None else ():
        path, named = _OF_REFERENCE.subn("", file.text, count=1)
        if not named or is_open(path):
            continue
        parts = posixpath.normpath(path).split("/")
        # What is read may lie below the root of the repository.
        below = ("/".join(parts[i:]) for i in range(max(1, len(parts) - 1)))
        found = next((p for p in below if claims.texts.text(p) is not None), None)
        if found is None:
            claims.problem(file, "E_NOT_FOUND", f"the file of values {path} is not in the source.")
            continue
        try:
            yield from documents(found, claims.texts)
        except TabootError as error:
            claims.texts.problem(found, error.code, error.message)
