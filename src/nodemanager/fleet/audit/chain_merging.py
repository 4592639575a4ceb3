"""What hosts report about their own chains, as records of the log. Pure.

    the end of a chain      ->  `anchor`, not too often; what was told in between is compared all the same
    an end that cannot be   ->  `alarm`, with the verdict as its reason, until a person says `accept`
    what people did there   ->  the record of the host with its number, in the order of the chain; drifts, too

All of them name the entry of the chain (`Record.chain`), by which an operator that starts anew finds out from
the log what was told before. A host can flood its own chain, but not the log: the rest is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from nodemanager.api.audit.record import HOST, OPERATOR, Actor, ChainEntry, Record, RecordedObject
from nodemanager.api.common.audit_chain import CHAIN_ACCEPTED, AuditChain
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.fleet.audit import host_chains, told_lines
from nodemanager.fleet.audit.changes import ObjectId
from nodemanager.fleet.audit.host_chains import ChainJudgement, ChainVerdict, KnownChain
from nodemanager.fleet.audit.observed import HostTold, SeenObject
from nodemanager.kube import times

CHAIN: Final = "chain"
ANCHOR, ALARM, ACCEPT = "anchor", "alarm", "accept"
"""Verbs of records that concern a chain as a whole."""
EVERY: Final = timedelta(minutes=10)
"""The shortest time between two anchors of a host."""
HOUR: Final = timedelta(hours=1)
MAX_AN_HOUR: Final = 60
"""How many records of one host's chain are taken in an hour; of the others, only the number is recorded."""
MAX_ALARMS: Final = 6
"""How many alarms about one host are recorded in an hour."""
MAX_ABANDONED: Final = 8
MAX_GONE: Final = 1024
"""For how many deleted ManagedNodes the end of their chain is still remembered."""
AGAIN: Final = "-again"
"""Marks an end that was accepted before, because each alarm must be accepted separately."""
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Alarm:
    """A chain contradicts what was reported before, and nobody has accepted that yet."""

    token: str
    verdict: str
    message: str


@dataclass(slots=True)
class FollowedChain:
    """The memory about the chain of one ManagedNode.

    A ManagedNode that is created anew has no memory, unless it reports the same chain: deleting it must not
    make us forget that a chain went back.
    """

    object: RecordedObject
    last: AuditChain | None = None
    """The chain as it was last reported."""
    abandoned: tuple[AuditChain, ...] = ()
    anchored: AuditChain | None = None
    """The chain as the log has it."""
    anchored_at: datetime = _LONG_AGO
    alarm: Alarm | None = None
    hour: datetime = _LONG_AGO
    """The beginning of the hour in which records are counted."""
    taken: int = 0
    alarms: int = 0
    left_out: int = 0

    def tell(self, now: AuditChain | None) -> None:
        """Remember what was reported, whatever the verdict is."""
        known = host_chains.after(self.known, now)
        self.last = known.seen[-1] if known.seen else None
        self.abandoned = known.abandoned[-MAX_ABANDONED:]

    def has_told_of(self, chain: str) -> bool:
        """Tell whether this host reported the chain with that id."""
        return chain in [one.id for one in (*self.abandoned, self.last) if one is not None]

    @property
    def known(self) -> KnownChain:
        """The ends of the chain by which its host is judged; of one history only the last is needed."""
        return KnownChain((self.last,) if self.last is not None else (), self.abandoned)


class ChainMemory:
    """The chains of all hosts."""

    def __init__(self) -> None:
        self._hosts: dict[ObjectId, FollowedChain] = {}
        self._gone: dict[ObjectId, FollowedChain] = {}

    def alarms(self) -> dict[str, Alarm]:
        """Return the open alarms, by the names of their hosts."""
        return {which.name: one.alarm for which, one in self._hosts.items() if one.alarm is not None}

    def keep(self, before: ChainMemory) -> None:
        """Take over reports that are not in the log yet, or no longer; the log is the same."""
        self._hosts, self._gone = dict(before._hosts), dict(before._gone)

    # What the log says

    def note(self, records: Iterable[Record]) -> None:
        """Take note of records, in their order."""
        for one in records:
            about = one.object
            if about.kind != MANAGED_NODES.kind:
                continue
            which = ObjectId(about.kind, about.namespace, about.name)
            if one.verb == "delete" and one.chain is None:
                self._forget(which)
            elif one.chain is not None:
                self._note(self._of(which, about, one.chain.id), one, one.chain)

    def _note(self, state: FollowedChain, one: Record, entry: ChainEntry) -> None:
        end = _end(entry)
        if one.verb == ACCEPT:
            state.alarm = None
        elif one.verb == ALARM:
            state.alarm = Alarm(one.approval or token(end), one.reason, one.message)
        elif end is not None and state.last is not None and end.size <= state.last.size:
            return  # an entry before the end that was reported together with it
        state.tell(end)
        state.anchored = state.last
        if one.verb in (ANCHOR, ALARM):
            state.anchored_at = times.parse(one.time) or _LONG_AGO

    def _of(self, which: ObjectId, about: RecordedObject, chain: str) -> FollowedChain:
        found = self._hosts.get(which)
        if found is not None and found.object.uid != about.uid:
            self._forget(which)
            found = None
        if found is None:
            before = self._gone.pop(which, None)
            found = before if before is not None and before.has_told_of(chain) else FollowedChain(about)
            self._hosts[which] = found
            found.object, found.anchored, found.anchored_at = about, None, _LONG_AGO
        return found

    def _forget(self, which: ObjectId) -> None:
        """Remember that a ManagedNode is gone."""
        if (found := self._hosts.pop(which, None)) is not None:
            self._gone.pop(which, None)
            self._gone[which] = found
        while len(self._gone) > MAX_GONE:
            del self._gone[next(iter(self._gone))]

    # What is seen

    def take(self, which: ObjectId, seen: SeenObject | None, now: datetime) -> list[Record]:
        """Return the records that follow from a report of a host, and remember it."""
        if seen is None:
            self._forget(which)
            return []
        if (known := self._hosts.get(which)) is not None and known.object.uid != seen.object.uid:
            self._forget(which)
        if seen.told is None or (seen.told.chain is None and which not in self._hosts):
            return []
        state = self._of(which, seen.object, seen.told.chain.id if seen.told.chain is not None else "")
        state.object = seen.object
        if not timedelta(0) <= now - state.hour < HOUR:  # a negative difference: the clock was set back
            state.hour, state.taken, state.alarms = now, 0, 0
        return [*_accepted(state, seen), *_judged(state, seen.told, now)]

    def due(self, now: datetime) -> list[Record]:
        """Return anchors that were delayed because the last one was too recent."""
        return [
            _anchor(one, one.last, now)
            for one in self._hosts.values()
            if one.last is not None
            and one.last != one.anchored
            and not timedelta(0) <= now - one.anchored_at < EVERY
        ]


def token(end: AuditChain | None) -> str:
    """Return the word by which a person names the end that they accept."""
    return f"{end.size}-{end.head[:12]}" if end is not None else "none"


def _end(entry: ChainEntry) -> AuditChain | None:
    if entry.index < 0:
        return None
    return AuditChain(entry.id, entry.index + 1, entry.digest, entry.first_kept)


def _entry(end: AuditChain | None) -> ChainEntry:
    if end is None:
        return ChainEntry(-1)
    return ChainEntry(end.size - 1, end.head, end.id, end.first_kept)


def _accepted(state: FollowedChain, seen: SeenObject) -> Iterator[Record]:
    alarm = state.alarm
    if alarm is None or seen.told is None or seen.told.accepted != alarm.token:
        return
    state.alarm = None
    yield Record(
        actor=seen.actor, verb=ACCEPT, aspect=CHAIN, object=seen.object, host=seen.object.name,
        from_=alarm.token, reason=alarm.verdict, chain=_entry(state.last),
    )  # fmt: skip


def _judged(state: FollowedChain, told: HostTold, now: datetime) -> Iterator[Record]:
    before, end = state.last, told.chain if told.chain is not None and told.chain.size else None
    lines = told_lines.read(told.lines, end)
    judged = host_chains.judge(state.known, end)
    if end is not None and judged.verdict is ChainVerdict.FINE:
        judged = told_lines.linked(before, end, lines) or judged
    state.tell(end)
    merged = before.size - 1 if before is not None else -1
    if judged.verdict.is_alarm:
        yield from _alarmed(state, before, judged, told.accepted, now)
        merged = -1  # it is unknown from which record on they differ
    if end is None:
        return
    for line in lines:
        if line.index > merged and line.notable:
            if state.taken >= MAX_AN_HOUR:
                state.left_out += 1
                continue
            state.taken += 1
            if line.index == end.size - 1:
                state.anchored = end  # the record itself says so
            yield told_lines.merged(line, state.object, end)
    if end != state.anchored and not timedelta(0) <= now - state.anchored_at < EVERY:
        yield _anchor(state, end, now)


def _alarmed(
    state: FollowedChain, before: AuditChain | None, judged: ChainJudgement, accepted: str, now: datetime
) -> Iterator[Record]:
    end = state.last
    wanted = token(end) if token(end) != accepted else f"{accepted}{AGAIN}"
    said = (
        f"{judged.message}. When you know why: kubectl annotate managednode {state.object.name}"
        f" -n {state.object.namespace} --overwrite {CHAIN_ACCEPTED}={wanted}"
    )
    state.alarm = Alarm(wanted, judged.verdict, said)
    if state.alarms >= MAX_ALARMS:
        state.left_out += 1
        return
    state.alarms += 1
    state.anchored, state.anchored_at = end, now
    yield Record(
        actor=Actor(name="nodemanager-operator", known=OPERATOR), verb=ALARM, aspect=CHAIN,
        object=state.object, host=state.object.name, reason=judged.verdict, message=said,
        from_=_in_words(before), to=_in_words(end), chain=_entry(end), approval=wanted,
    )  # fmt: skip


def _anchor(state: FollowedChain, end: AuditChain, now: datetime) -> Record:
    left, state.left_out = state.left_out, 0
    before, state.anchored, state.anchored_at = state.anchored, end, now
    said = (
        f"{left} records of this host are not here: it told more than {MAX_AN_HOUR} in an hour"
        if left
        else ""
    )
    return Record(
        actor=Actor(name=state.object.name, known=HOST), verb=ANCHOR, aspect=CHAIN, object=state.object,
        host=state.object.name, from_=_in_words(before), to=_in_words(end), count=left, message=said,
        chain=_entry(end),
    )  # fmt: skip


def _in_words(end: AuditChain | None) -> str:
    return f"{end.size} {end.head}" if end is not None else ""
