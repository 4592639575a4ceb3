"""One write done twice: by a real kube-apiserver and by our functions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from nodemanager.client.calls import WriteOptions
from nodemanager.client.patches import ApplyPatch, JsonPatch, MergePatch, Patch, StrategicPatch
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.objects import Resource, Untyped
from nodemanager.kube.patching import managed_fields
from nodemanager.kube.patching.field_sets import EMPTY, FieldSet
from nodemanager.kube.patching.json_patch import apply_json_patch
from nodemanager.kube.patching.merge_patch import apply_merge_patch
from nodemanager.kube.patching.merge_types import MergeType
from nodemanager.kube.patching.server_side_apply import Writer, apply, update_managers
from nodemanager.kube.patching.strategic_merge import apply_strategic_merge
from nodemanager.kube.patching.strategies import Strategy
from support.patch_steps import Step

NOW = "2099-01-02T03:04:05Z"
"""Later than every time that the server knows."""
_MAPS = ("spec", "status", "free", "labels", "selector", "nested", "deep", "extra")
_SERVERS_OWN = ("managedFields", "resourceVersion", "generation")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a write came to: an object and its owners, or a refusal."""

    obj: Any = None
    owners: Any = None
    refusal: Any = None


@dataclass(frozen=True, slots=True)
class Judge:
    """Does the same to one object here and there."""

    client: Client
    resource: Resource[Untyped]
    of: MergeType
    reset: dict[str, FieldSet] = field(default_factory=dict)
    """What each door (subresource) does not let through."""
    strategy: Strategy | None = None
    """For built-in kinds: they know strategic merge patches, and no null survives their types."""

    async def both(self, live: Untyped, step: Step) -> tuple[Untyped, Outcome, Outcome]:
        """Return the object as the server has it then, the server's outcome, and ours."""
        # Ours goes first: it asks the server about the object that is still there.
        ours = None if step.kind == "update" else await self._here(live, step, live)
        try:
            stored = await self._there(live, step)
        except errors.StatusError as error:
            theirs, stored = refused(error), live
        else:
            theirs = Outcome(plain(stored), self._owners(managed_fields.entries_of(stored)))
        if ours is None:
            ours = theirs if theirs.refusal else await self._here(live, step, stored)
        return stored, theirs, ours

    async def _here(self, live: Untyped, step: Step, stored: Untyped) -> Outcome:
        try:
            return await self._attempt(live, step, stored)
        except errors.StatusError as error:
            return refused(error)

    async def _there(self, live: Untyped, step: Step) -> Untyped:
        options = WriteOptions(field_manager=step.manager, field_validation="Ignore")
        if step.kind == "update":
            return await self.client.update(
                self.resource, step.body, subresource=step.subresource, options=options
            )
        meta = live["metadata"]
        return await self.client.patch(
            self.resource,
            meta["name"],
            meta.get("namespace", ""),
            _patch(step),
            subresource=step.subresource,
            options=options,
        )

    async def _attempt(self, live: Untyped, step: Step, stored: Untyped) -> Outcome:
        reset = self.reset.get(step.subresource, EMPTY)
        kind = self.resource.kind
        writer = Writer(
            step.manager, self.resource.api_version, kind, NOW, step.subresource, reset, self.strategy is None
        )
        if step.kind in ("apply", "force"):
            result = apply(live, self._named(live, step.body), writer, self.of, force=step.kind == "force")
            door = step.subresource or "spec"
            found = list(nulls({door: result.object.get(door, {})}, ""))
            if found and self.strategy is None:
                return self._refused_nulls(found, live["metadata"]["name"])
            return Outcome(
                plain(await self._stored(result.object, step)), self._owners(result.managed_fields)
            )
        if step.kind == "update":
            wish = managed_fields.entries_of(step.body)
            after = written = managed_fields.without_entries(stored)
        else:
            patched = patched_here(live, step, self.strategy)
            wish = managed_fields.entries_of(patched)
            after = await self._stored(managed_fields.without_entries(patched), step)
            # Ownership is settled before a subresource drops what it does not let through.
            written = managed_fields.without_entries(patched) if step.subresource else after
        if wish is not None:
            written = {**written, "metadata": {**written["metadata"], "managedFields": wish}}
        return Outcome(plain(after), self._owners(update_managers(live, written, writer, self.of)))

    def _refused_nulls(self, found: list[tuple[str, str]], name: str) -> Outcome:
        """Return how the server refuses an apply that leaves null where a list or map was."""
        causes = []
        for path, kind in found:
            # The status is validated on its own, and its errors are half aware of that.
            where = path.removeprefix("status").removeprefix(".")
            why = f'Invalid value: "null": {where} in body must be of type {kind}: "null"'
            causes.append(errors.Cause(path, "FieldValueTypeInvalid", why))
        what = f'{self.resource.kind}.{self.resource.group} "{name}" is invalid: '
        text = f"{what}{causes[0].field}: {causes[0].message}"
        return refused(errors.Invalid(text, details=errors.StatusDetails(causes=causes)))

    def _owners(self, entries: Any) -> dict[tuple[str, ...], tuple[Any, bool]]:
        """Return who owns what; of built-in kinds the server keeps the order of fieldsV1, too."""
        found = owners(entries)
        if self.strategy is None:
            return found
        return {who: (json.dumps(fields), timed) for who, (fields, timed) in found.items()}

    def _named(self, live: Untyped, body: Untyped) -> Untyped:
        """Say what the client says of itself in an apply."""
        where = {name: live["metadata"][name] for name in ("name", "namespace") if name in live["metadata"]}
        head = {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
        return {**head, **body, "metadata": {**where, **body.get("metadata", {})}}

    async def _stored(self, obj: Untyped, step: Step) -> Untyped:
        """Return an object as the server would store it: pruned, defaulted and found valid."""
        options = WriteOptions(field_manager=step.manager, field_validation="Ignore", dry_run=True)
        stored = await self.client.update(self.resource, obj, subresource=step.subresource, options=options)
        return managed_fields.without_entries(stored)


def nulls(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield where a widget has null although its schema does not allow that."""
    if isinstance(value, dict):
        for name, inner in value.items():
            where = f"{path}.{name}" if path else name
            if inner is None and name != "maybe":
                yield where, "object" if name in _MAPS else "array"
            elif name != "free":
                yield from nulls(inner, where)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from nulls(item, f"{path}[{index}]")


def patched_here(live: Untyped, step: Step, strategy: Strategy | None) -> Untyped:
    """Return what our own patch makes of an object."""
    if step.kind == "json":
        patched: Untyped = apply_json_patch(live, step.body)
        return patched
    if step.kind == "strategic" and strategy is not None:
        return apply_strategic_merge(live, step.body, strategy)
    return apply_merge_patch(live, step.body)


def _patch(step: Step) -> Patch:
    match step.kind:
        case "json":
            return JsonPatch(step.body)
        case "merge":
            return MergePatch(step.body)
        case "strategic":
            return StrategicPatch(step.body)
    return ApplyPatch(step.body, force=step.kind == "force")


def plain(obj: Untyped) -> Untyped:
    """Return an object without what only the server sets."""
    meta = {name: value for name, value in obj["metadata"].items() if name not in _SERVERS_OWN}
    return {**obj, "metadata": meta}


def owners(entries: Any) -> dict[tuple[str, ...], tuple[Any, bool]]:
    """Return who owns what, and whether the server said since when."""
    names = ("manager", "operation", "apiVersion", "subresource")
    return {
        tuple(entry.get(name, "") for name in names): (entry["fieldsV1"], "time" in entry)
        for entry in entries or []
    }


def refused(error: errors.StatusError) -> Outcome:
    """Return a refusal as far as it can be compared: several causes come in any order."""
    status = error.status
    causes = sorted((cause.field, cause.reason, cause.message) for cause in error.causes)
    message = [] if len(causes) > 1 and status.code == 422 else sorted(status.message.split("\n"))
    return Outcome(refusal=(status.code, status.reason, message, causes))
