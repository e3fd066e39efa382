"""What GitOps tools are told to run: Flux' HelmReleases, and what those and its Kustomizations wait for.

Reference: the API references of helm.toolkit.fluxcd.io and kustomize.toolkit.fluxcd.io.
"""

from __future__ import annotations

from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder
from taboot_pipelines.extraction.tier_a.kubernetes.objects import Object, listed
from taboot_pipelines.extraction.tier_a.kubernetes.workloads import service_ref
from taboot_pipelines.extraction.tier_a.yaml_nodes import is_open
from taboot_pipelines.model.graph import SCHEMA_VERSION

_FLUX = {"HelmRelease": "helm.toolkit.fluxcd.io", "Kustomization": "kustomize.toolkit.fluxcd.io"}


def is_of_flux(one: Object) -> bool:
    return _FLUX.get(one.kind) == one.group


def claim_of_flux(claims: ClaimBuilder, one: Object) -> None:
    """A HelmRelease, or a Kustomization that waits for another. A Kustomization is a folder of manifests: it
    declares no service, however it is called."""
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
