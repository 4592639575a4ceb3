"""Tells drift from new declarations: if a resource held before, another program caused the repair."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

import msgspec

from nodemanager.agent.declared.memory import HeldStore
from nodemanager.api.common.declarations import OBSERVE
from nodemanager.api.common.managednode import DriftRecord
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.kube.go import durations
from nodemanager.plan.desired import Contents, Desired
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.stages import KINDS, HostKinds

_OUTCOMES: Final = {
    ResourceOutcome.CHANGED: "repaired",
    ResourceOutcome.OBSERVED: "observed",
    ResourceOutcome.HELD: "observed",
    ResourceOutcome.SHUT: "observed",
}
_LEFT_ALONE: Final = (ResourceOutcome.OBSERVED, ResourceOutcome.HELD, ResourceOutcome.SHUT)
_SEEN: Final = "observed "
"""In the store, a reported difference begins with this; other entries are declarations that held."""

Declared = str
"""The digest of a resource's declaration, content included, without its drift policy."""


class DriftWatch:
    """Remembers how each resource was declared when it last held, and which differences were reported."""

    def __init__(self, store: HeldStore | None = None, kinds: HostKinds = KINDS) -> None:
        self._store = store
        self._kinds = kinds
        self._held: dict[ResourceId, Declared] = {}
        self._seen: dict[ResourceId, str] = {}
        """For resources that are only observed: the last reported difference."""
        self._told: dict[ResourceId, str] = {}
        """For resources that could not be repaired: the last reported reason."""
        self._before: dict[ResourceId, Declared] | None = None
        """What held when the current pass began."""
        self._load()
        self._saved = _digest_of(self.document())
        """The digest of the saved document."""

    @property
    def known(self) -> frozenset[ResourceId]:
        """What held, or was left alone, at the last look."""
        return frozenset((*self._held, *self._seen))

    def begin(self) -> None:
        """Remember what holds as a pass begins: its results are compared with that, whatever repairs do."""
        self._before = dict(self._held)

    def observe_only(
        self, declared: Mapping[ResourceId, Declared], observed: AbstractSet[ResourceId]
    ) -> frozenset[ResourceId]:
        """Return the `observed` resources that held as declared when last looked at: they are not changed."""
        return frozenset(one for one in observed if self.held(one, declared))

    def held(self, one: ResourceId, declared: Mapping[ResourceId, Declared]) -> bool:
        """Tell whether a resource held at the last look, as it is declared now."""
        return one in declared and self._held.get(one) == declared[one]

    def judge(
        self, declared: Mapping[ResourceId, Declared], results: Sequence[Result], *, whole: bool = True
    ) -> list[Result]:
        """Return the results, with those marked that are drift.

        `declared` is what `declarations` made of everything; `whole` says whether the results are about
        everything, too, or only about what was touched.
        """
        before = self._before if whole and self._before is not None else self._held
        self._before = None if whole else self._before
        judged = [
            replace(one, drifted=True) if self._drifted(one, declared, before) else one for one in results
        ]
        bad = {one.id for one in results if one.bad}
        seen = {one.id for one in results if one.outcome in _LEFT_ALONE}
        undone = self._undone(declared, results)
        about = declared.keys() if whole else {one.id for one in results} & declared.keys()
        if whole:
            # By the ids of the declarations: ids from the store would hold a second copy of every path.
            self._held = {one: self._held[one] for one in declared if one in self._held}
        for one in about:
            if one not in undone:
                self._held[one] = declared[one]
            elif ResourceOutcome.FAILED in undone[one] and not self.held(one, declared):
                self._held.pop(one, None)  # half of the change may be done
        for known, still in ((self._seen, seen), (self._told, bad)):
            for one in [one for one in known if one not in still]:
                resource = self.owning_resource(one, declared)
                if resource in about or (whole and resource not in declared):
                    del known[one]
        return judged

    def fresh(self, results: Iterable[Result]) -> list[Result]:
        """Return the drifts among judged results that were not reported yet: no difference is told twice."""
        found = []
        for one in results:
            if not one.drifted:
                continue
            if one.outcome in _LEFT_ALONE:
                # The policy counts, too: under another one than `observe`, a person has to act now.
                mark = _digest(one.mark, one.policy if one.policy != OBSERVE else "")
                new, self._seen[one.id] = self._seen.get(one.id) != mark, mark
            elif one.bad:
                new, self._told[one.id] = self._told.get(one.id) != one.message, one.message
            else:
                new = True
            if new:
                found.append(one)
        return found

    def save(self, document: Mapping[str, str] | None = None) -> None:
        """Save what holds, or an earlier `document`, for the next process, if it changed; this blocks."""
        document = self.document() if document is None else document
        digest = _digest_of(document)
        if self._store is not None and digest != self._saved and self._store.save_held(document):
            self._saved = digest  # if not, the next call tries again

    def owning_resource(self, one: ResourceId, declared: Mapping[ResourceId, object]) -> ResourceId:
        """Return the declared resource of a result: for a purged entry, the directory."""
        return self._kinds.owning_resource(one, declared)

    def _drifted(
        self, one: Result, declared: Mapping[ResourceId, Declared], held: Mapping[ResourceId, Declared]
    ) -> bool:
        """Tell whether the resource of a result held before, as it is declared now."""
        if one.outcome is ResourceOutcome.UNCHANGED or not one.repairs or one.news:
            return False
        resource = self.owning_resource(one.id, declared)
        return resource in declared and held.get(resource) == declared[resource]

    def _undone(
        self, declared: Mapping[ResourceId, Declared], results: Iterable[Result]
    ) -> dict[ResourceId, set[ResourceOutcome]]:
        """Return the outcomes of failed and delayed repairs, by resource; purged entries by directory."""
        found: dict[ResourceId, set[ResourceOutcome]] = {}
        for one in results:
            if one.bad or one.put_off:
                found.setdefault(self.owning_resource(one.id, declared), set()).add(one.outcome)
        return found

    def document(self) -> dict[str, str]:
        """Return what the next process needs."""
        held, seen = self._held.copy(), self._seen.copy()  # a thread may save it while repairs go on
        found = {str(one): digest for one, digest in held.items()}
        return found | {f"{_SEEN}{one}": mark for one, mark in seen.items()}

    def _load(self) -> None:
        for text, digest in (self._store.load_held() if self._store else {}).items():
            found = self._seen if text.startswith(_SEEN) else self._held
            with contextlib.suppress(ValueError):  # from a newer version
                found[self._kinds.parse(text.removeprefix(_SEEN))] = digest


def record(one: Result, now: str, took: float) -> DriftRecord:
    """Return the report of a drift, without its number."""
    repaired = one.outcome is ResourceOutcome.CHANGED
    return DriftRecord(
        time=now,
        resource=str(one.id),
        outcome=_OUTCOMES.get(one.outcome, "failed"),
        message=one.message,
        policy=one.policy if not repaired and one.policy != OBSERVE else "",
        found=one.found,
        wanted=one.wanted,
        took=durations.format_seconds(round(max(took, 0.0), 4)) if repaired else "",
        by=one.by,
    )


def declarations(
    desired: Desired, contents: Contents, kinds: HostKinds = KINDS
) -> dict[ResourceId, Declared]:
    """Return the digest of each resource's declaration; for a file, with its content."""
    encode = msgspec.json.Encoder().encode
    return {
        one.id: _digest(encode(one.declaration), kind.drift.content(one.declaration, contents))
        for kind in kinds
        if kind.drift is not None
        for one in desired.items.get(kind.name, ())
    }


def _digest_of(document: Mapping[str, str]) -> str:
    return _digest(msgspec.json.encode(document, order="sorted"))


def _digest(data: bytes | str, more: str = "") -> str:
    data = data if isinstance(data, bytes) else data.encode(errors="surrogateescape")
    return hashlib.blake2b(data + more.encode(), digest_size=12).hexdigest()
