"""Server-side apply, and the book-keeping of owners for every other write.

Pure: the caller reads the live object, stores the result, and says what time it is. Defaulting,
validation and pruning of unknown fields are the caller's, after `apply` and before `update_managers`.
All managers are judged by one schema, whatever API version they wrote in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nodemanager.kube import errors
from nodemanager.kube.json_values import copy_of, same
from nodemanager.kube.patching import apply_refusals, last_applied, managed_fields, typed_merge
from nodemanager.kube.patching.field_sets import EMPTY, FieldSet, Path
from nodemanager.kube.patching.managed_fields import Entry, ManagerFields, ManagerIdentity, Managers
from nodemanager.kube.patching.merge_types import MergeType
from nodemanager.kube.patching.schema_changes import reconcile
from nodemanager.kube.patching.typed_compare import Comparison, compare
from nodemanager.kube.patching.typed_values import SchemaError, fields_of, validate

Object = dict[str, Any]
MANAGER_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer, the subresource, and the time."""

    manager: str
    api_version: str
    """`v1` or `group/version` of the request."""
    kind: str
    now: str
    """RFC 3339 in UTC with whole seconds."""
    subresource: str = ""
    reset_fields: FieldSet = EMPTY
    """Fields that a request to this subresource cannot change (such as `status` elsewhere), so it owns none
    of them."""
    is_custom: bool = False
    """Whether the kind is a custom resource: there, empty managedFields do not ask for anything."""
    zero: Mapping[str, Any] | None = None
    """A new object of a built-in kind before anything is set; None = the schema tells."""

    def identity(self, operation: str) -> ManagerIdentity:
        """Return which entry of managedFields is the writer's."""
        version = "" if operation == "Apply" else self.api_version
        return ManagerIdentity(self.manager or MANAGER_UNKNOWN, operation, version, self.subresource)


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The merged object without managedFields, and the new entries."""

    object: Object
    managed_fields: list[Entry]
    changed: bool
    """Whether the object differs from the live one in more than its owners."""


class _Conflicts(Exception):
    """Fields that others own and that would change."""

    def __init__(self, found: list[tuple[ManagerIdentity, Path]]) -> None:
        super().__init__()
        self.found = found


def apply(
    live: Mapping[str, Any] | None, applied: Mapping[str, Any], writer: Writer, of: MergeType, *, force: bool
) -> ApplyResult:
    """Merge what a manager applies into the live object (None: it is created).

    Raises `errors.Conflict` when others own what would change, `errors.BadRequest` for an apply that
    makes no sense, and `errors.InternalError` where Kubernetes answers 500: values that do not fit.
    """
    apply_refusals.check_applied(applied, writer.api_version, writer.kind)
    head = {"apiVersion": writer.api_version, "kind": writer.kind}
    current: Object = managed_fields.without_entries(head if live is None else live)
    try:
        managers = managed_fields.decode(managed_fields.entries_of(live or {}) or [])
    except ValueError as error:
        raise errors.unforeseen(f"failed to decode managed fields: {error}") from error
    name = apply_refusals.name_of(applied)
    apply_refusals.check_types(dict(applied), of, f"failed to create typed patch object ({name})")
    apply_refusals.check_types(current, of, f"failed to create typed live object ({name})", duplicates=True)
    if not managers:
        managers = _before_first_apply(current, writer, of)
    merging = _Apply(current, dict(applied), writer, of)
    try:
        result = merging.run(managers, force=force)
    except _Conflicts as conflicts:
        found = conflicts.found
        if writer.manager == last_applied.MANAGER:
            allowed = last_applied.owned_fields(current, of, writer.api_version)
            found = [(identity, path) for identity, path in found if path not in allowed]
        if found:
            raise apply_refusals.conflict(found) from None
        result = merging.run(managers, force=True)
    if writer.manager == last_applied.MANAGER:
        return replace(result, object=last_applied.refreshed(result.object, dict(applied)))
    return result


def update_managers(
    before: Mapping[str, Any] | None, after: Mapping[str, Any], writer: Writer, of: MergeType
) -> list[Entry]:
    """Return the managedFields after a create (`before` is None), an update or a patch.

    `after` is the object that will be stored; managedFields in it are taken as the writer's request to
    change them, except through a subresource.
    """
    live = before or {}
    managers = _requested_managers(live, after, writer)
    if not managers and before is not None:
        return []
    old: Object = managed_fields.without_entries(live)
    if before is None:
        old = _nothing(writer, of)
    new = managed_fields.without_entries(after)
    try:
        validate(new, of, duplicates=True)
        validate(old, of, duplicates=True)
    except SchemaError:
        return []  # As in Kubernetes: owners that cannot be found out are dropped, and the write goes on.
    updated = _update(managers, old, new, replace(writer, manager=writer.manager or MANAGER_UNKNOWN), of)
    updated.cap()
    return updated.encode()


def keep_times(before: Mapping[str, Any], after: Object) -> None:
    """Give `after` the entries of `before` when a write changed nothing but their times.

    A write that changes nothing must not reach the store: with this, the objects compare as equal.
    """
    old: list[Entry] = managed_fields.entries_of(before) or []
    entries: list[Entry] = managed_fields.entries_of(after) or []
    if not same(managed_fields.without_entries(before), managed_fields.without_entries(after)):
        return

    def untimed(found: Iterable[Entry]) -> list[Entry]:
        return [{name: value for name, value in entry.items() if name != "time"} for entry in found]

    if old and same(untimed(old), untimed(entries)):
        after["metadata"] = {**after["metadata"], "managedFields": old}


def _before_first_apply(live: Object, writer: Writer, of: MergeType) -> Managers:
    """Give all fields without an owner to one manager, so that the first apply can conflict."""
    before = replace(writer, manager=managed_fields.BEFORE_FIRST_APPLY)
    return _update(Managers(), _nothing(writer, of), live, before, of)


def _nothing(writer: Writer, of: MergeType) -> Object:
    """Return the object that a new one is compared with."""
    zero = {} if writer.is_custom else of.zero() if writer.zero is None else writer.zero
    return {**zero, "apiVersion": writer.api_version, "kind": writer.kind}


def _requested_managers(live: Mapping[str, Any], after: Mapping[str, Any], writer: Writer) -> Managers:
    requested = managed_fields.entries_of(after)
    if not writer.subresource:
        if managed_fields.is_reset(requested) and (requested or not writer.is_custom):
            return Managers()
        try:
            if found := managed_fields.decode(requested or []):
                return found
        except ValueError:
            pass  # A writer of unreadable managedFields changes nothing: the present ones stay.
    try:
        return managed_fields.decode(managed_fields.entries_of(live) or [])
    except ValueError:
        return Managers()


def _update(managers: Managers, old: Object, new: Object, writer: Writer, of: MergeType) -> Managers:
    """Give the writer what changed, and take it from everybody else."""
    owned = {
        identity: replace(entry, fields=reconcile(entry.fields, of))
        for identity, entry in managers.owned.items()
    }
    remaining = Managers(owned)
    changes = compare(old, new, of).without(writer.reset_fields)
    _take(remaining, changes, _conflicting(remaining, changes, None))
    taken = changes.modified.union(changes.added).without_branches(writer.reset_fields)
    taken = taken.difference(managed_fields.UNMANAGED)
    if taken:
        identity = writer.identity("Update")
        previous = remaining.owned.get(identity)
        fields = taken.union(previous.fields) if previous else taken
        remaining.owned[identity] = ManagerFields(fields, writer.api_version, writer.now)
    return remaining


def _conflicting(
    managers: Managers, changes: Comparison, me: ManagerIdentity | None
) -> dict[ManagerIdentity, FieldSet]:
    """Return what others own of the fields that changed or are new."""
    touched = changes.modified.union(changes.added)
    found = {
        identity: owned.fields.intersection(touched)
        for identity, owned in managers.owned.items()
        if identity != me
    }
    return {identity: fields for identity, fields in found.items() if fields}


def _take(
    managers: Managers,
    changes: Comparison,
    conflicts: dict[ManagerIdentity, FieldSet],
    *,
    me: ManagerIdentity | None = None,
) -> None:
    for identity, owned in list(managers.owned.items()):
        fields = owned.fields
        if identity != me:
            fields = fields.difference(conflicts.get(identity, EMPTY)).difference(changes.removed)
        managers.keep(identity, fields)


class _Apply:
    """One apply of one manager."""

    def __init__(self, live: Object, applied: Object, writer: Writer, of: MergeType) -> None:
        self._live = live
        self._applied = applied
        self._writer = writer
        self._of = of
        self._me = writer.identity("Apply")

    def run(self, managers: Managers, *, force: bool) -> ApplyResult:
        """Merge, remove what is no longer applied, and find the owners of all fields."""
        owned = {
            identity: replace(entry, fields=reconcile(entry.fields, self._of))
            for identity, entry in managers.owned.items()
        }
        last = owned.get(self._me)
        mine = fields_of(self._applied, self._of).without_branches(self._writer.reset_fields)
        owned[self._me] = ManagerFields(mine, self._writer.api_version, last.time if last else "")
        merged = typed_merge.merge(self._live, self._applied, self._of)
        if last is not None and last.fields:
            merged = self._pruned(merged, last.fields, owned)
        settled = Managers(owned)
        changes = compare(self._live, merged, self._of).without(self._writer.reset_fields)
        conflicts = _conflicting(settled, changes, self._me)
        if conflicts and not force:
            raise _Conflicts(
                [(identity, path) for identity in sorted(conflicts, key=str) for path in conflicts[identity]]
            )
        _take(settled, changes, conflicts, me=self._me)
        changed = not same(self._live, merged)
        if self._me in settled.owned:
            if changed:
                settled.owned[self._me] = replace(settled.owned[self._me], time=self._writer.now)
            settled.keep(self._me, settled.owned[self._me].fields.difference(managed_fields.UNMANAGED))
        return ApplyResult(copy_of(merged), settled.encode(), changed)

    def _pruned(self, merged: Object, last: FieldSet, owned: dict[ManagerIdentity, ManagerFields]) -> Object:
        """Remove fields of the last apply that have no owner now."""
        pruned = typed_merge.remove(merged, self._named(last), self._of)
        everything = self._named(fields_of(merged, self._of))
        managed = EMPTY
        for entry in owned.values():
            managed = managed.union(entry.fields)
        kept = self._named(fields_of(pruned, self._of)).union(self._named(managed))
        pruned = typed_merge.remove(merged, everything.difference(kept), self._of)
        # A removed part may contain fields that we never applied: those stay, with or without an owner.
        gone = everything.difference(self._named(fields_of(pruned, self._of)))
        result: Object = typed_merge.remove(merged, gone.intersection(self._named(last)), self._of)
        return result

    def _named(self, fields: FieldSet) -> FieldSet:
        return typed_merge.with_named_fields(fields, self._of)
