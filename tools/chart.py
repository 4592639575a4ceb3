"""The parts of the Helm chart that follow from the typed API; the others are written by hand beside them."""

from __future__ import annotations

import re
from typing import Any, Final

from nodemanager.api import crds
from nodemanager.api.maintenance import shipped_templates
from nodemanager.api.rights import policies
from nodemanager.api.rights.rbac_objects import OWN_NAMESPACE
from nodemanager.controllers import assembly
from nodemanager.kube import core, manifests

FOLDER: Final = "charts/nodemanager"
_NAMESPACE: Final = re.compile(rf"^(  |- )*(name|namespace): {OWN_NAMESPACE}$", re.MULTILINE)
_MUTATING: Final = f"{core.MUTATING_POLICIES.api_version}/{core.MUTATING_POLICIES.kind}"
_KEEP: Final = {"helm.sh/resource-policy": "keep"}
"""Uninstalling the chart leaves what people declared, and what keeps the hosts apart that are still there."""


def files(header: str) -> dict[str, str]:
    """Return the content of every generated file of the chart, by its path below the root."""
    found = {
        f"{FOLDER}/crds/{crd['metadata']['name']}.yaml": header + manifests.dump(crd)
        for crd in crds.all_crds()
    }
    policy = header + _literal(manifests.dump([_kept(one) for one in policies.objects()]))
    found[f"{FOLDER}/templates/policy.yaml"] = _when("policy.install", policy)
    stamping = header + _literal(manifests.dump([_kept(one) for one in policies.mutating_objects()]))
    found[f"{FOLDER}/templates/stamping.yaml"] = _when("policy.install", stamping, _MUTATING)
    namespace, *rights = assembly.manifests(OWN_NAMESPACE)
    found[f"{FOLDER}/templates/namespace.yaml"] = _when(
        "createNamespaces", header + _namespaced(_kept(namespace))
    )
    found[f"{FOLDER}/templates/operator-rbac.yaml"] = _when("operator.enabled", header + _namespaced(rights))
    disruption = header + _namespaced(assembly.disruption_manifests(OWN_NAMESPACE))
    found[f"{FOLDER}/templates/operator-disruption-rbac.yaml"] = _when("operator.disruption", disruption)
    edge = header + _namespaced(assembly.edge_manifests(OWN_NAMESPACE))
    found[f"{FOLDER}/templates/operator-edge-rbac.yaml"] = _when("operator.edge", edge)
    templates = _namespaced([_kept(one) for one in shipped_templates.templates(OWN_NAMESPACE)])
    ours = f"{shipped_templates.MANAGED_BY}: {shipped_templates.US}"
    found[f"{FOLDER}/templates/operation-templates.yaml"] = _when(
        "operationTemplates.install",
        header + templates.replace(ours, f"{shipped_templates.MANAGED_BY}: Helm"),
    )
    return found


def _kept(obj: dict[str, Any]) -> dict[str, Any]:
    annotations = {**obj["metadata"].get("annotations", {}), **_KEEP}
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


def _namespaced(objects: dict[str, Any] | list[dict[str, Any]]) -> str:
    """Return objects as a template that puts them into the namespace of the values."""
    text = _literal(manifests.dump(objects))
    return _NAMESPACE.sub(lambda found: found[0].partition(": ")[0] + ": {{ .Values.namespace }}", text)


def _literal(text: str) -> str:
    """Return a text that a template leaves as it is, or fail."""
    if "{{" in text:
        raise ValueError("cannot make a template: the text has two braces, which would begin an action")
    return text


def _when(value: str, text: str, served: str = "") -> str:
    """Return a template that is used if a value is set, and if the server has a kind, where one is named."""
    asked = f".Values.{value}"
    if served:
        asked = f'and {asked} (.Capabilities.APIVersions.Has "{served}")'
    return f"{{{{- if {asked} }}}}\n{text}{{{{- end }}}}\n"
