"""The NodeOperationTemplates that we ship, and what happens to existing ones. Pure.

They are files of this package, one per template, in `templates/`. Installed, each has a label that says
that it is ours, and a digest of what we wrote, which tells a changed one from an old one.
"""

from __future__ import annotations

import functools
import hashlib
from enum import Enum
from importlib import resources
from typing import Final, NamedTuple

import msgspec

from nodemanager.api import maintenance
from nodemanager.kube import manifests
from nodemanager.kube.json_values import copy_of
from nodemanager.kube.objects import Untyped

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
US: Final = "nodemanager"
DIGEST: Final = "maintenance.nodemanager/shipped-digest"
"""Annotation: what the spec was when we wrote it."""
_FOLDER: Final = "templates"


class TemplateFate(Enum):
    """What is to be done to a template."""

    CREATE = "created"
    UPDATE = "configured"
    SAME = "unchanged"
    KEEP = "kept"


class TemplateVerdict(NamedTuple):
    """What is to be done to a template, and why it is kept as it is."""

    fate: TemplateFate
    why: str = ""


def templates(namespace: str) -> list[Untyped]:
    """Return all templates as they are installed into a namespace, by name."""
    return [_installed(obj, namespace) for obj in _files()]


@functools.cache
def _files() -> tuple[Untyped, ...]:
    folder = resources.files(maintenance) / _FOLDER
    found = (one for one in folder.iterdir() if one.name.endswith(".yaml"))
    objects = (manifests.load_all(one.read_text(encoding="utf-8"), one.name)[0] for one in found)
    return tuple(sorted(objects, key=lambda obj: str(obj["metadata"]["name"])))


def _installed(obj: Untyped, namespace: str) -> Untyped:
    spec = copy_of(obj["spec"])
    metadata = {
        "name": obj["metadata"]["name"],
        "namespace": namespace,
        "labels": {MANAGED_BY: US},
        "annotations": {DIGEST: digest(spec)},
    }
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, "spec": spec}


def digest(spec: Untyped) -> str:
    """Return what tells one spec from another."""
    return hashlib.sha256(msgspec.json.encode(spec, order="deterministic")).hexdigest()[:16]


def decide(ours: Untyped, present: Untyped | None) -> TemplateVerdict:
    """Return what is to be done to one of our templates, given what is there under its name."""
    if present is None:
        return TemplateVerdict(TemplateFate.CREATE)
    meta, spec = present["metadata"], present.get("spec") or {}
    owner = (meta.get("labels") or {}).get(MANAGED_BY, "")
    if owner != US:
        return TemplateVerdict(TemplateFate.KEEP, f"{owner} manages it" if owner else "it is not ours")
    if (meta.get("annotations") or {}).get(DIGEST) != digest(spec):
        return TemplateVerdict(TemplateFate.KEEP, "somebody changed it")
    if spec == ours["spec"]:
        return TemplateVerdict(TemplateFate.SAME)
    if _number(spec) > _number(ours["spec"]):
        return TemplateVerdict(
            TemplateFate.KEEP, f"it is version {spec['version']}, and ours {ours['spec']['version']} is older"
        )
    return TemplateVerdict(TemplateFate.UPDATE)


def renewed(ours: Untyped, present: Untyped) -> Untyped:
    """Return what one that is there becomes: itself, unless it is an older one of ours."""
    if decide(ours, present).fate is not TemplateFate.UPDATE:
        return present
    meta = present["metadata"]
    annotations = {**meta["annotations"], **ours["metadata"]["annotations"]}
    return {**present, "metadata": {**meta, "annotations": annotations}, "spec": ours["spec"]}


def _number(spec: Untyped) -> tuple[int, ...]:
    """Return a version as what can be compared; one that is none of ours is older than all."""
    parts = str(spec.get("version", "")).split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else ()
