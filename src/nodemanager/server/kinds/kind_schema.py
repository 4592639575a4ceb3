"""What a kind's schema does to its objects: pruning, defaults, validation, owners, compiled once."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec

from nodemanager.kube import json_values
from nodemanager.kube.cel.rules import RuleSet
from nodemanager.kube.errors import Cause
from nodemanager.kube.objects import Untyped
from nodemanager.kube.patching import field_sets, merge_types
from nodemanager.kube.patching import server_side_apply as ssa
from nodemanager.kube.patching.field_sets import FieldSet
from nodemanager.kube.patching.merge_types import MergeType
from nodemanager.kube.schemas import defaulting, embedded, pruning, structural, validation
from nodemanager.kube.schemas.faults import NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID
from nodemanager.server.kinds import builtin_schemas, go_zero_values, nulls
from nodemanager.server.kinds.go_zero_values import NormalForm
from nodemanager.server.kinds.resources import ServedKind

_OPEN: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_STATUS = FieldSet.of((field_sets.field("status"),))
_NOT_STATUS = FieldSet.of((field_sets.field("spec"),))
_ONLY_STATUS = FieldSet.of((field_sets.field("spec"),), (field_sets.field("metadata"),))

_BLOCKING = frozenset((NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID))
"""After one of these faults CEL rules are not run: they expect an object that fits the schema."""
_UNCHECKED = Cause(
    field="<nil>",
    reason="FieldValueInvalid",
    message="Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


class KindSchema:
    """The compiled schema of one kind."""

    def __init__(self, kind: ServedKind) -> None:
        schema = kind.schema
        if schema is None and not kind.custom:
            schema = builtin_schemas.structural(kind.group, kind.version, kind.kind)
        self._node = structural.compile_schema(schema or _OPEN)
        self._custom = kind.custom
        self._rules = RuleSet(dict(schema)) if kind.custom and schema else None
        self._has_rules = any(node.rules for node in structural.walk(self._node))
        self._has_status = kind.has_status
        self._go_type = None if kind.custom else go_zero_values.go_type(kind.group, kind.version, kind.kind)
        self.merge_type: MergeType = merge_types.object_type(dict(schema) if schema else None)

    def prune(self, obj: Untyped) -> list[str]:
        """Remove unknown fields, and return their paths."""
        if not self._custom:
            nulls.leave_out(obj, self._node)
        return pruning.prune(obj, self._node)

    def unfit(self, obj: Untyped) -> str:
        """Return why an object cannot be decoded as its kind, or nothing."""
        if self._go_type is not None:
            return self._go_type.misfit(obj)
        found = embedded.embedded_malformed(obj, self._node) if self._custom else []
        return f"{found[0].field}: {found[0].message}" if found else ""

    def normalised(self, obj: Untyped, stage: NormalForm = NormalForm.CHECKED) -> Untyped:
        """Return a built-in object as its Go structure would be written; custom ones stay as they are."""
        if self._go_type is None:
            return obj
        found: Untyped = self._go_type.normalised(obj, stage)
        return found

    def as_stored(self, obj: Untyped) -> Untyped:
        """Return an object as it comes back from the store."""
        stored = self.normalised(json_values.whole_numbers(obj), NormalForm.STORED)
        self.fill_in(stored)  # drops nulls that came through an open field: Kubernetes never shows them
        return stored

    def fill_in(self, obj: Untyped, *, keep_nulls: bool = False) -> None:
        """Fill in the defaults of a custom kind; the built-in kinds have theirs in `builtin_behaviour`."""
        if self._custom:
            defaulting.apply_defaults(obj, self._node, keep_nulls=keep_nulls)
            pruning.reduce_embedded(obj, self._node)  # a default may bring odd metadata, too

    def validate(self, obj: Untyped, old: Untyped | None, subresource: str = "") -> list[Cause]:
        """Return what is wrong with an object, or with a change to it: first the schema, then its rules."""
        faults = self._faults(obj, old)
        if subresource == "status" and self._custom:  # Kubernetes leaves out `status.` in these texts
            return [msgspec.structs.replace(f, message=_in_status(f.message)) for f in faults]
        return faults

    def _faults(self, obj: Untyped, old: Untyped | None) -> list[Cause]:
        if not self._custom:
            # `kind_faults` checks the rest of what the schema says, in the words that Kubernetes has for it.
            return [fault for fault in validation.validate(obj, self._node) if _is_unknown(fault)]
        faults = validation.validate(obj, self._node, old=old)
        if self._rules is None or not self._has_rules:
            return faults
        if any(fault.reason in _BLOCKING for fault in faults):
            return [*faults, _UNCHECKED]
        return faults + self._rules.evaluate(obj, old=old)

    def writer(self, manager: str, kind: ServedKind, now: str, subresource: str) -> ssa.Writer:
        """Return the writer, and the fields that a request to that subresource cannot change."""
        reset = FieldSet()
        if self._has_status:
            only = _ONLY_STATUS if self._custom else _NOT_STATUS
            reset = only if subresource == "status" else _STATUS
        return ssa.Writer(
            manager=manager[:128], api_version=kind.api_version, kind=kind.kind, now=now,
            subresource=subresource, reset_fields=reset, is_custom=self._custom,
            zero=None if self._go_type is None else self._go_type.zero(),
        )  # fmt: skip


def _in_status(text: str) -> str:
    return re.sub(r"\bstatus\.?(\S*) in body", r"\1 in body", text)


def _is_unknown(fault: Cause) -> bool:
    # Taints have checks of their own, and what a status says is taken as it comes.
    apart = fault.field.startswith(("spec.taints", "status."))
    return fault.reason == "FieldValueNotSupported" and '"": supported' not in fault.message and not apart


class _ById:
    """A kind as a cache key: kinds hold dicts and are replaced, never changed."""

    __slots__ = ("kind",)

    def __init__(self, kind: ServedKind) -> None:
        self.kind = kind

    def __hash__(self) -> int:
        return id(self.kind)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.kind is self.kind


@lru_cache(maxsize=512)
def _of(key: _ById) -> KindSchema:
    return KindSchema(key.kind)


def of(kind: ServedKind) -> KindSchema:
    """Return the compiled schema of a kind."""
    return _of(_ById(kind))
