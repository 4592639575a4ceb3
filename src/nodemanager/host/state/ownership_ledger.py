"""What this host has because of ConfigSets, on disk before any of it is changed.

One file of the state folder. It is written whole, in one rename, and only when it would say something new.
Where there is none although the agent was here before, the state before us is unknown: what held then
is taken down as such, and is never taken back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from nodemanager.host.base import HostError
from nodemanager.host.state.vault import Vault, VaultError
from nodemanager.kube.errors import UNREADABLE
from nodemanager.plan import ownership
from nodemanager.plan.ownership import Owned, Sighting
from nodemanager.plan.resources import ResourceId, parse_id
from nodemanager.plan.set_doubts import Owner, SetRecord, name_of

log = logging.getLogger(__name__)
NAME: Final = "ownership"
VERSION: Final = 2
MAX_ENTRIES: Final = 50_000
"""More than a host can sensibly declare: some 20 MB."""


MAX_BYTES: Final = 48 * 1024 * 1024
MAX_LEFT: Final = 8192
"""How many resources that were left behind are remembered; beyond that, the oldest are forgotten."""


class OwnershipLedgerError(HostError):
    """The record of what we own cannot be written."""


class _Document(msgspec.Struct, omit_defaults=True):
    version: int = 0
    sets: dict[Owner, SetRecord] = {}
    owned: dict[str, Owned] = {}


class OwnershipLedger:
    """The record of one host; read when it is first asked for."""

    def __init__(self, vault: Vault, *, keep: bool = False) -> None:
        self._vault = vault
        self._keep = keep
        """Whether this is only to read: a damaged file stays in its place."""
        self._lock = threading.RLock()
        self._owned: dict[ResourceId, Owned] | None = None
        self._sets: dict[Owner, SetRecord] = {}
        self._expected: Mapping[Owner, SetRecord] | None = None
        """Facts about sets: they are saved with the next write."""
        self._here: dict[str, Owner] = {}
        """The sets that are for this host, by name."""
        self.is_new = False
        """Whether there was no usable file on disk."""

    @property
    def owned(self) -> Mapping[ResourceId, Owned]:
        """Everything that ConfigSets declare, and what they declared before and is still there."""
        return self._load()

    @property
    def sets(self) -> Mapping[Owner, SetRecord]:
        """What was last known of the sets that there are records of."""
        self._load()
        return self._sets

    @property
    def owners(self) -> dict[Owner, set[str]]:
        """All sets that there is a record of something of, and the kinds of what is not left for good."""
        found: dict[Owner, set[str]] = {}
        for one, entry in self._load().items():
            for name in entry.sets:
                found.setdefault(name, set()).update({one.kind} if entry.waits or not entry.left else ())
        return found

    def prunes(self, names: Iterable[str]) -> bool:
        """Tell whether one of these sets, as they are for this host now, takes back what it gives up.

        For that, the record need not be readable.
        """
        expected = self._expected or {}
        return any(one in expected and expected[one].prune for one in self.named(names))

    def named(self, names: Iterable[str]) -> tuple[Owner, ...]:
        """Return the sets of these names that are for this host; sets from manifests have no known uid."""
        return tuple(self._here.get(name, name) for name in names)

    @property
    def backups(self) -> frozenset[str]:
        """SHA-256 of the contents that something of a set that prunes may have to be put back to."""
        owned = self._load()
        pruning = {name for name, one in self._sets.items() if one.prune}
        found = (
            one.before.get("digest", "")
            for one in owned.values()
            if one.before and not pruning.isdisjoint(one.sets)
        )
        return frozenset(filter(None, found))

    def reload(self) -> None:
        """Read again what is on disk."""
        with self._lock:
            self._owned = None

    def _load(self) -> dict[ResourceId, Owned]:
        with self._lock:
            if self._owned is None:
                found = self._read()
                self._owned = {}
                for text, entry in found.owned.items():
                    try:
                        self._owned[parse_id(text)] = entry
                    except ValueError:  # of a newer version
                        log.warning("there is a record of %s, which this agent does not know", text[:80])
                self._sets = found.sets
            return self._owned

    def _read(self) -> _Document:
        try:
            data = self._vault.load(NAME)
            self.is_new = data is None
            return _Document() if data is None else _decoded(data)
        except (VaultError, *UNREADABLE, ValueError) as error:
            if isinstance(error.__cause__, OSError):  # it may well be whole
                raise OwnershipLedgerError(f"{error}; nothing is changed while that is not known") from error
            if self._keep:
                raise OwnershipLedgerError(str(error)) from error
            log.warning("%s; what it said is lost, and nothing of that is taken back", error)
            self._vault.set_aside(NAME)
            self.is_new = True
            return _Document()

    def expect(self, sets: Mapping[Owner, SetRecord]) -> None:
        """Remember what is known of sets; it is written to disk together with the next record."""
        self._expected = sets
        self._here = {name_of(one): one for one, record in sets.items() if record.here}

    def begin(self, sets: Mapping[Owner, SetRecord], held: Iterable[ResourceId]) -> None:
        """Take down what is known of the sets of this host; those that are gone stay while they matter.

        Where there is no record, begin one with what `held` before: the state before us is unknown.
        """
        with self._lock:
            self.expect(sets)
            found = self._load()
            if self.is_new:
                found = {one: Owned() for one in held} | found
            self._update(found)
            self.is_new = False

    def note(self, seen: Iterable[Sighting]) -> None:
        """Take down what is about to be done to resources; returns when that is on disk."""
        with self._lock:
            found = dict(self._load())
            for one in seen:
                found[one.id] = ownership.taken(found.get(one.id), one)
            self._update(found)

    def fail(self, failed: Mapping[ResourceId, bool]) -> None:
        """Take down what could not be brought about, and what could in the end."""
        with self._lock:
            found = dict(self._load())
            for one in failed.keys() & found.keys():
                found[one] = msgspec.structs.replace(found[one], failed=failed[one])
            self._update(found)

    def foresee(self, coming: Mapping[ResourceId, Owned]) -> None:
        """Take down resources that are not there before others bring them."""
        with self._lock:
            self._update({**self._load(), **coming})

    def settle(
        self, left: Mapping[ResourceId, Owned], gone: Iterable[ResourceId],
        moved: Mapping[ResourceId, ResourceId] | None = None,
    ) -> None:  # fmt: skip
        """Take down why resources are left behind, and forget those that are as they were before us.

        Those that `moved` are declared under another name now, which remembers what was there before.
        """
        with self._lock:
            found = {**self._load(), **left}
            for old, new in (moved or {}).items():
                if old in found:
                    found[new] = ownership.handed_over(found[old], found.get(new))
            for one in (*gone, *_oldest(found)):
                found.pop(one, None)
            self._update(found)

    def _update(self, owned: dict[ResourceId, Owned]) -> None:
        if not owned and not self._owned:
            return  # where nothing is declared, nothing of ours need be
        sets = self._sets
        if self._expected is not None:
            used = {name for entry in owned.values() for name in entry.sets}
            untold = {one: sets[one] for one in sets.keys() - self._expected.keys()}
            known = {one: msgspec.structs.replace(record, here=False) for one, record in untold.items()}
            known |= self._expected
            sets = {one: record for one, record in known.items() if record.here or one in used}
        if owned != self._owned or sets != self._sets:
            self._save(owned, sets)

    def _save(self, owned: dict[ResourceId, Owned], sets: dict[Owner, SetRecord]) -> None:
        """Put it on disk; only then it counts."""
        if len(owned) > MAX_ENTRIES:
            raise OwnershipLedgerError(
                f"cannot take down what this host has: {len(owned)} resources are more than {MAX_ENTRIES};"
                " declare fewer, or see nodemanager orphans"
            )
        document = _Document(VERSION, sets=sets, owned={str(one): entry for one, entry in owned.items()})
        data = msgspec.json.encode(document)
        if len(data) > MAX_BYTES:
            raise OwnershipLedgerError(
                f"cannot take down what this host has: that would be {len(data)} bytes"
            )
        try:
            self._vault.save(NAME, data)
        except VaultError as error:
            raise OwnershipLedgerError(
                f"{error}; nothing is changed of which that cannot be taken down"
            ) from error
        self._owned, self._sets = owned, sets

    def close(self) -> None:
        """Give back what is held open."""
        self._vault.close()


def _decoded(data: bytes) -> _Document:
    found = msgspec.json.decode(data, type=_Document)
    if found.version != VERSION:  # its meaning, and the loss by writing it anew, are unknown
        raise ValueError(f"cannot read the record of what this host has: it is of version {found.version}")
    return found


def _oldest(owned: Mapping[ResourceId, Owned]) -> list[ResourceId]:
    """Return what is to be forgotten because too much is left behind; it stays on the host, but unlisted."""
    left = [one for one, entry in owned.items() if entry.left and not entry.waits]
    over = left[: max(len(left) - MAX_LEFT, 0)]
    for one in over:
        log.warning("%s is left behind, and forgotten: more than %d resources are", one, MAX_LEFT)
    return over
