"""What GitOps tools are told to run: charts, with what they connect to by their values, and what Flux'
HelmReleases and Kustomizations wait for.

Reference: the API references of helm.toolkit.fluxcd.io, kustomize.toolkit.fluxcd.io and argoproj.io.
"""

from __future__ import annotations

from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder
from taboot_pipelines.extraction.tier_a.kubernetes.objects import (
    DEFAULT_NAMESPACE,
    Object,
    Surroundings,
    listed,
)
from taboot_pipelines.extraction.tier_a.kubernetes.values import VALUES, claim_values, values_of
from taboot_pipelines.extraction.tier_a.kubernetes.workloads import claim_reach, configured, service_ref
from taboot_pipelines.extraction.tier_a.yaml_nodes import is_open
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
    start = claims.node(
        service_ref(claims, one.namespace, one.name.text),
        one.name,
        {"schemaVersion": SCHEMA_VERSION} if released else {},
        declared=released,
    )
    if released and start is not None:
        _claim_release(claims, start, one, surroundings)
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


def _claim_release(claims: ClaimBuilder, service: NodeRef, one: Object, surroundings: Surroundings) -> None:
    """What a HelmRelease connects to by its values, those in ConfigMaps included. Its objects are in the
    namespace that it names, and it answers to its own name there."""
    spec = one.spec
    target = spec.scalar("targetNamespace") if spec is not None else None
    namespace = one.namespace if target is None or is_open(target.text) else target.text
    claim_reach(claims, service, namespace, one.name, one.name.text)
    for item in listed(spec, "valuesFrom"):
        kind, key = item.scalar("kind"), item.scalar("valuesKey")
        if kind is not None and kind.text == "ConfigMap":
            wanted = key.text if key is not None else VALUES
            for _, text in configured(item, one.namespace, surroundings, wanted):
                claim_values(claims, service, values_of(text), namespace, surroundings)
    given = spec.get("values") if spec is not None else None
    claim_values(claims, service, values_of(given), namespace, surroundings)


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
    service = claims.node(
        service_ref(claims, namespace, one.name.text),
        one.name,
        {"schemaVersion": SCHEMA_VERSION},
        declared=True,
    )
    if service is None:
        return
    claim_reach(claims, service, namespace, one.name, one.name.text)
    for chart in charts:
        for key in ("valuesObject", "values"):
            claim_values(claims, service, values_of(chart.get(key)), namespace, surroundings)
