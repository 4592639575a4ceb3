"""What is promised of rollouts, held against what is published: by what hosts are, not by facts of ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from nodemanager.api.common import choosing
from nodemanager.api.common.rollout import (
    FAIL,
    PAUSED,
    PROGRESSING,
    SOAKING,
    STABLE,
    STAGED,
    UNDOING,
    UNDONE,
    WAITING,
    RolloutStatus,
    is_staged,
)
from nodemanager.fleet.rollout import stages, visitors
from nodemanager.fleet.rollout.reasons import REMEDIES, RolloutReason
from nodemanager.kube import times
from nodemanager.kube.go import durations
from support.rollout_world import GOOD, Host, World

ENDS = (STABLE, UNDONE, PAUSED)


TOLD = (RolloutReason.NOT_APPROVED, RolloutReason.DEFAULT_GONE)
"""What is waited for, and heard of."""


@dataclass
class Promises:
    """Looks on while somebody has an operator look."""

    here: World
    healthy: dict[str, set[str]] = field(default_factory=dict)
    """By digest: hosts that were healthy with it at a look while it was next."""
    generation: int = 0
    """The one that was published last."""
    turned: dict[str, datetime] = field(default_factory=dict)
    """When a host had its turn in this rollout."""
    allowed: int = 0
    """So many hosts may be killed by it."""
    away: int = 0
    """So many were silent when their turn came."""
    excused: set[str] = field(default_factory=set)
    """Those that it killed while others worked on them: nobody can know why they are silent."""

    def look(self) -> RolloutStatus:
        """Have the operator look, and hold what it publishes against what is promised."""
        here, old = self.here, self.here.status or RolloutStatus()
        if old.next is not None:
            proven = self.healthy.setdefault(old.next.digest, set())
            proven.update(one.name for one in here.hosts if is_healthy(one, old))
        first = here.status is None
        new = here.look()
        self._note(old, new)
        assert RolloutReason(new.reason) in REMEDIES
        assert new.phase == STABLE or new.message
        assert len(new.message) <= 1024
        if new == old and new.phase in (PROGRESSING, SOAKING) and new.reason not in TOLD:
            assert here.again is not None, ("nobody will look again", new)
        if here.policy is not None and not is_staged(here.rollout) and same_rollout(old, new):
            assert new.threshold == old.threshold, ("more without a default", new)
        if is_staged(here.rollout):
            if here.barred and new.next is not None and not same_rollout(old, new):
                assert (new.threshold, new.canary) == (0, None), ("begun while it may not", new)
            self._check_end(old, new, first=first)
            if same_rollout(old, new):
                self._check_stage(old, new)
            if old.next is not None and new.refused is not None and old.next.digest == new.refused.digest:
                self._check_return(old, new)
            if new.phase == UNDONE:
                assert new.refused is not None
                assert not [
                    one
                    for one in here.hosts
                    if not one.silent and one.report and one.report.digest == new.refused.digest
                ]
        self.generation = here.generation
        return new

    def _note(self, old: RolloutStatus, new: RolloutStatus) -> None:
        """Never more hosts are killed by a change than stop it, and than may be on their way to it.

        Those that were silent when their turn came may all come back at once.
        """
        here, hosts = self.here, taking_part(self.here, new)
        if new.next is None or not is_staged(here.rollout):
            return
        if not same_rollout(old, new):
            self.turned, self.allowed, self.away = {}, 0, 0
            self.excused.clear()
        for one in hosts:
            if choosing.has_turn(new, one.meta) and one.name not in self.turned:
                self.turned[one.name] = here.now
                self.away += one.silent
        most = here.rollout.max_unavailable
        sizes = stages.sizes(here.rollout, len(hosts), canaries=new.canary is not None)
        step = sizes[new.stage - 1] if most is None and new.stage else 1
        first = sum(choosing.is_canary(new, one.meta.labels) for one in hosts)
        step = max(step, first, stages.count(most, len(hosts)) if most is not None else 1)
        self.allowed = max(self.allowed, here.rollout.stop_after + step)
        dead = [one for one in hosts if one.dead and one.kept and one.kept.digest == new.next.digest]
        self.excused.update(one.name for one in dead if self.is_worked_on(one))
        if here.rollout.on_silence == FAIL:
            most_dead = self.allowed + self.away + len(self.excused)
            assert len(dead) <= most_dead, ("it goes on to kill hosts", len(dead), most_dead, new)

    def is_lost(self, host: Host) -> bool:
        """Tell whether a host fell silent since its turn, and that is to count."""
        turned = self.turned.get(host.name, self.here.now)
        fails = self.here.rollout.on_silence == FAIL and host.silent and host.knows
        fails = fails and not host.visited
        return fails and turned < host.alive_since and turned != self.here.now

    def is_worked_on(self, host: Host) -> bool:
        """Tell whether others have a host unavailable: not for ever, if nobody hears of it."""
        return host.visited and not (host.silent and self.here.now - host.alive_since >= visitors.LONGEST)

    def is_absent(self, host: Host) -> bool:
        """Tell whether a host can prove nothing, and is not missed."""
        said, here = host.report, self.here
        # It took this change before there was a default, and cannot be told from one that knows no stages.
        early = said is not None and not said.digest and said.observed_generation == here.generation
        return (is_absent(host) or (here.policy is not None and early)) and not self.is_lost(host)

    def _check_end(self, old: RolloutStatus, new: RolloutStatus, *, first: bool) -> None:
        """What becomes stable is on every host that can be asked, and was healthy there."""
        if new.phase != STABLE or new.stable is None or old.stable == new.stable:
            return
        digest, here = new.stable.digest, self.here
        if old.stable is not None and old.stable.digest == digest:
            return
        if first:
            lacking = [
                one.name
                for one in here.hosts
                if not one.silent and one.report and (one.kept is None or one.kept.digest != digest)
            ]
            assert not lacking, ("stable although not all have it", lacking)
            return
        if old.next is None or old.next.digest != digest:  # decided about and ended in one look
            assert not taking_part(here, new), ("stable at once", new)
            assert not here.barred, ("stable at once, although it may not begin", new)
            return
        asked = [one for one in taking_part(here, old) if not self.is_absent(one)]
        unmoved = [one.name for one in asked if not choosing.has_turn(old, one.meta)]
        assert not unmoved, ("stable although some did not move", unmoved, old)
        bad = [one.name for one in asked if one.name not in self.healthy.get(digest, ())]
        assert len(bad) < here.rollout.stop_after, ("stable although not proven", bad, old)
        assert not here.rollout.paused
        assert here.gate is None, ("stable although a gate does not hold", new)
        if not asked:
            assert not taking_part(here, old), ("stable although nobody was there", old)
            assert old.stage == 0, ("stable although those left that had it", old)

    def _check_stage(self, old: RolloutStatus, new: RolloutStatus) -> None:
        """Never more hosts than the stage has, none without the soak, none beyond maxUnavailable."""
        here = self.here
        assert new.threshold >= old.threshold
        if (new.threshold, new.canary) == (old.threshold, old.canary):
            return
        hosts = taking_part(here, new)
        before, after = (
            [one for one in hosts if choosing.has_turn(status, one.meta)] for status in (old, new)
        )
        if len(after) <= len(before):
            return
        assert not here.rollout.paused
        assert not here.barred, ("further hosts while they may not", old, new)
        sizes = stages.sizes(here.rollout, len(hosts), canaries=new.canary is not None)
        awake = [one for one in after if not self.is_absent(one)]
        first = [one for one in after if choosing.is_canary(new, one.meta.labels)]
        size = max(sizes[min(new.stage, len(sizes)) - 1], len(first))
        assert len(after) <= size or len(awake) <= 1, ("more than the stage", len(after), size, new)
        edited = self.generation != here.generation
        begun = [one for one in before if not self.is_absent(one)]
        if old.stage and begun and (new.stage > old.stage or edited):
            waited = here.rollout.soak == "0" or (old.phase == SOAKING and soaked(here, old))
            assert waited, ("no soak", old, new)
            bad = [one.name for one in begun if not is_healthy(one, new)]
            assert len(bad) < here.rollout.stop_after, ("next stage although not proven", bad)
        most = here.rollout.max_unavailable
        visited = [one for one in hosts if self.is_worked_on(one)]
        if most is not None and visited and len(after) > len(first):
            assert len(visited) < stages.count(most, len(hosts)), ("further hosts beside others", new)
        if most is not None and len(awake) > 1:
            fresh = [
                one.name
                for one in awake
                if not is_healthy(one, new) and one not in first and not (one.report and one.report.error)
            ]
            given_up = new.counts.failed if new.counts else 0
            assert len(fresh) <= stages.count(most, len(hosts)) + given_up, ("too many unproven", fresh, new)

    def _check_return(self, old: RolloutStatus, new: RolloutStatus) -> None:
        """Exactly the hosts that had it return, to what is stable; and somebody was to blame for it."""
        here = self.here
        assert old.next is not None
        assert (new.next, new.phase, new.threshold) == (None, UNDOING, 0)
        assert new.stable is None or old.stable is None or new.stable.digest == old.stable.digest
        for host in here.hosts:
            choice = choosing.chosen(here.config_set(), host.meta)
            assert choice.revision == new.stable
            has = host.kept is not None and host.kept.ref is not None and host.kept.digest == old.next.digest
            assert not has or old.next.digest in host.had
        if here.current.digest != old.next.digest:
            return
        assert any(choosing.has_turn(old, one.meta) for one in taking_part(here, old)), ("nobody has it", old)
        if here.gate is not RolloutReason.GATE_FAILS:
            self._check_blame(old)

    def _check_blame(self, old: RolloutStatus) -> None:
        assert old.next is not None
        behaves = {one.name: self.here.behaves(one, old.next.digest) for one in self.here.hosts if one.knows}
        fails = self.here.rollout.on_silence == FAIL
        if not any(fails and one.silent and one.name in self.turned for one in self.here.hosts):
            assert not all(how in GOOD for how in behaves.values()), ("undone although all were good", old)

    def end(self) -> str:
        """Let everybody be there and time pass: it comes to an end."""
        here = self.here
        here.shut = here.closed = False
        for host in here.hosts:
            host.visited = False
        here.gate, here.unapproved = None, ""
        if here.rollout.paused:
            here.configure(paused=False)
        if here.policy is not None:
            here.configure(strategy=STAGED)
        for host in here.hosts:
            if host.silent and not host.dead:
                here.hush(host)
        quiet = 0
        for _ in range(400):
            here.tick(lazy=False)
            before, status = here.status, self.look()
            quiet = quiet + 1 if before and status.phase == before.phase else 0
            if quiet > 1 and self._is_over(status):
                break
        else:
            raise AssertionError(f"it never ends: {here.status}")
        if status.phase in (STABLE, UNDONE) and is_staged(here.rollout):
            stable = status.stable.digest if status.stable else ""
            heard = [one for one in here.hosts if one.knows and not one.dead]
            have = {one.kept.digest for one in heard if one.kept and one.kept.ref}
            assert have <= {stable}, (have, status)
        return status.phase

    def _is_over(self, status: RolloutStatus) -> bool:
        """Tell whether nothing more will happen, unless somebody does something."""
        if status.phase in ENDS or status.phase != WAITING:
            return status.phase in ENDS
        moved = [one for one in taking_part(self.here, status) if choosing.has_turn(status, one.meta)]
        return status.reason == RolloutReason.NO_CANARY or all(is_absent(one) for one in moved)


def is_absent(host: Host) -> bool:
    """Tell whether a host can prove nothing: it is silent, or its agent does not know about stages."""
    return host.silent or not host.knows


def is_healthy(host: Host, status: RolloutStatus) -> bool:
    """Tell whether a host says that it is healthy with what is next."""
    said = host.report
    if host.silent or status.next is None or said is None or said.digest != status.next.digest:
        return False
    return not (said.error or said.waiting or said.held) and choosing.has_turn(status, host.meta)


def taking_part(here: World, status: RolloutStatus) -> list[Host]:
    """Return the hosts that take part."""
    return [one for one in here.hosts if choosing.takes_part(status, one.meta)]


def soaked(here: World, status: RolloutStatus) -> bool:
    """Tell whether a soak is over, of which the operator saw at least the end."""
    since = times.parse(status.since)
    soak = timedelta(seconds=durations.parse(here.rollout.soak))
    seen = here.now - here.watched_since >= min(soak, timedelta(seconds=60))
    return since is not None and here.now - since >= soak and seen


def same_rollout(old: RolloutStatus, new: RolloutStatus) -> bool:
    """Tell whether both are about one rollout of one revision."""
    if old.next is None or new.next is None:
        return False
    return old.next.digest == new.next.digest and old.started_at == new.started_at
