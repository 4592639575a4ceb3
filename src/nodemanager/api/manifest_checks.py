"""Objects from manifests without an API: refused for the same reasons, in the same words, as by one."""

from __future__ import annotations

import copy
import re
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from nodemanager.api import kinds
from nodemanager.kube.cel.rules import RuleSet
from nodemanager.kube.manifests import ManifestError
from nodemanager.kube.objects import Resource, Untyped
from nodemanager.kube.schemas import defaulting, derivation, pruning, structural, validation

T = TypeVar("T")
MAX_SHOWN = 600
MAX_FAULTS = 5
_NO_TEXT = "must be of type string"


def typed(obj: Untyped, resource: Resource[T], source: str) -> T:
    """Return a manifest of one of our kinds as an object, defaults filled in, or raise ManifestError."""
    schema, node, rules = _compiled(resource.api_version, resource.kind)
    obj = copy.deepcopy(obj)
    name = str((obj.get("metadata") or {}).get("name", "")) if isinstance(obj.get("metadata"), dict) else ""
    where = f"cannot use {resource.kind} {_cut(name) or '(without a name)'} in {source}"
    if not name:
        raise ManifestError(f"{where}: metadata.name is missing")
    unknown = pruning.prune(obj, node)
    wrong = [f"unknown field {_cut(one)}; {_hint(schema, one)}" for one in unknown]
    defaulting.apply_defaults(obj, node)
    faults = validation.validate(obj, node) or rules.evaluate(obj)
    wrong += [f"{_cut(fault.field)}: {_cut(fault.message)}" for fault in faults]
    if wrong:
        said = "; ".join(wrong[:MAX_FAULTS])
        said += "; what is to be a text needs quotes in YAML" if _NO_TEXT in said else ""
        raise ManifestError(f"{where}: {said}")
    try:
        return msgspec.convert(obj, resource.type)
    except msgspec.ValidationError as error:  # fields of metadata, which the schema does not cover
        raise ManifestError(
            f"{where}: {_cut(str(error))}; what is to be a text needs quotes in YAML"
        ) from None


def _cut(text: str) -> str:
    """Return what fits into a message; what is left out is in the manifest."""
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN // 2]}...{text[-MAX_SHOWN // 2 :]}"


def _hint(schema: dict[str, Any], path: str) -> str:
    """Return which field may be meant by one that does not exist, or where to look."""
    import difflib  # a write to an existing object never needs it

    *parents, wrong = re.sub(r"\[[^]]*\]", "", path).split(".")
    for name in parents:
        schema = schema.get("properties", {}).get(name, {})
        schema = schema.get("items", schema)
    alike = difflib.get_close_matches(wrong, schema.get("properties", ()), 1)
    return f"did you mean {alike[0]}?" if alike else "see kubectl explain, or docs/reference"


@lru_cache(maxsize=8)
def _compiled(api_version: str, kind: str) -> tuple[dict[str, Any], structural.Structural, RuleSet]:
    """Return the schema of a kind and what is made of it, which takes longer than to check an object."""
    found = kinds.named(api_version, kind)
    if found is None:
        raise LookupError(f"{api_version} {kind} is not in the registry of kinds")
    schema = derivation.of_kind(found.resource.type)
    return schema, structural.compile_schema(schema), RuleSet(schema)
