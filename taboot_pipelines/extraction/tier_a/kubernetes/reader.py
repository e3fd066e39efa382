"""What a manifest states: its objects by kind."""

from __future__ import annotations

import posixpath
import re

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder
from taboot_pipelines.extraction.tier_a.compose.files import resolve_path
from taboot_pipelines.extraction.tier_a.kubernetes.objects import (
    Object,
    Surroundings,
    objects,
)
from taboot_pipelines.extraction.tier_a.kubernetes.placements import (
    KUSTOMIZATIONS,
    Overlay,
    default_namespace,
    overlays,
)
from taboot_pipelines.extraction.tier_a.kubernetes.releases import (
    claim_application,
    claim_of_flux,
    is_of_flux,
)
from taboot_pipelines.extraction.tier_a.kubernetes.values import (
    claim_chart,
    claim_objects,
    looks_like_chart,
)
from taboot_pipelines.extraction.tier_a.recognition import top_keys
from taboot_pipelines.extraction.tier_a.texts import Problems, UnitTexts
from taboot_pipelines.extraction.tier_a.yaml_nodes import (
    SCALAR,
    Node,
    Origin,
    documents,
    is_open,
    listed,
    parse,
)
from taboot_pipelines.model.records import FileView, Interpretation, SourceFacts

#: What of a kustomization changes what the manifests say.
_CHANGES = frozenset(
    {
        "namePrefix",
        "nameSuffix",
        "images",
        "patches",
        "patchesStrategicMerge",
        "patchesJson6902",
        "replacements",
        "transformers",
        "components",
        "helmCharts",
        "helmChartInflationGenerator",
    }
)
_JSON = re.compile(r"\"(?:kind|apiVersion)\"\s*:")


def looks_like_manifest(head: str) -> bool:
    """Whether a text begins as a manifest of Kubernetes."""
    begins = head.lstrip("\ufeff \t\r\n")[:2]
    if begins[:1] == "{" and begins != "{{":
        return len({match[0][:3] for match in _JSON.finditer(head)}) == 2
    return {"apiVersion", "kind"} <= top_keys(head)


def is_kustomization_path(path: str) -> bool:
    return posixpath.basename(path) in KUSTOMIZATIONS


def is_manifest_path(path: str) -> bool:
    """Whether a file is a kustomization or a chart of Helm, whatever it holds."""
    return is_kustomization_path(path) or looks_like_chart(path)


class ManifestReader:
    """Reads workloads, services, ingresses and releases (a
    :class:`~taboot_pipelines.extraction.tier_a.recognition.FormatReader`).

    Manifests are read as they are written, a base as each of its overlays has it: in its namespace, with its
    images. What else kustomize would change is noted at the kustomization, and its
    patches are no objects; templates of Helm say nothing.
    """

    name = "kubernetes"
    version = "12"

    def interpret(self, path: str, view: FileView, source: SourceFacts) -> Interpretation:
        texts = UnitTexts(view)
        claims = ClaimBuilder(source, texts)
        if is_kustomization_path(path):
            _note_changes(claims, path)
            return claims.result()
        if looks_like_chart(path):
            return claims.result(claim_chart(claims, path, view))
        if path in _patches(path, view):
            return claims.result()
        written = documents(path, texts)
        for overlay in overlays(path, texts) or [Overlay(default_namespace(path, view))]:
            made = [overlay.applied(node) for node in written]
            found = [one for one in objects(made, overlay.namespace) if _is_known(claims, one)]
            surroundings = Surroundings(path, view, found, texts, overlay.namespace)
            claim_objects(claims, found, surroundings)
            for one in found:
                if is_of_flux(one):
                    claim_of_flux(claims, one, surroundings)
                elif one.kind == "Application" and one.group == "argoproj.io":
                    claim_application(claims, one, surroundings)
        return claims.result()


def _is_known(claims: ClaimBuilder, one: Object) -> bool:
    if is_open(one.name.text) or is_open(one.namespace):
        claims.problem(one.name, "E_UNRESOLVED", "the object's name is yet to be put in.")
        return False
    return True


def _note_changes(claims: ClaimBuilder, path: str) -> None:
    for document in documents(path, claims.texts):
        if not _CHANGES.isdisjoint(document.entries):
            claims.texts.problem(
                path,
                "E_UNRESOLVED",
                f"{path}: kustomize changes what the manifests say; they are read as they are written.",
            )


def _patches(path: str, view: FileView) -> frozenset[str]:
    """The files of the folder that a kustomization there lays over others."""
    folder = posixpath.dirname(path)
    for name in KUSTOMIZATIONS:
        text = view.read(posixpath.join(folder, name))
        if text is None:
            continue
        try:
            roots = parse(Origin(path, text, ""), Problems())
        except TabootError:
            return frozenset()
        named: list[Node] = []
        for root in roots:
            merged = root.get("patchesStrategicMerge")
            named += merged.items if merged is not None else []
            for patch in listed(root, "patches", "patchesJson6902"):
                file = patch.scalar("path")
                named += [file] if file is not None else []
        found = [resolve_path(folder, node.text) for node in named if node.kind == SCALAR]
        return frozenset(file for file in found if file is not None)
    return frozenset()
