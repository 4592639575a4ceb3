"""Changes the mode of a bond in steps; the process may be killed after any of them.

    stage -> arm -> flip -> commit        and from anywhere: revert, or the dead-man

Every step looks at the bond, does what is missing and looks again, so it may be repeated. `networkctl
reload` is never used: it reports success, but does not change the mode of a bond.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from nodemanager.api.common.edge_state import MAX_BONDS, BondChange, BondState
from nodemanager.host.base import HostError, Runner
from nodemanager.host.edge import (
    bond_files,
    bond_looks,
    bond_records,
    bond_staging,
    deadman,
    links,
)
from nodemanager.host.edge.bond_looks import BondLooks
from nodemanager.host.edge.bond_plans import Arming, BondPlan, Phase
from nodemanager.host.edge.bond_records import COMMITTED, REVERTED, BondRecord, is_link_name, records
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory.boot import current_boot, seconds_since_boot
from nodemanager.kube import times

SETTLE: Final = 15.0
"""Seconds in which links come up again after a flip."""
ADDRESSED: Final = 45.0
"""Seconds in which systemd-networkd configures the addresses again."""
OVERDUE: Final = 60.0
"""Seconds after which an expired dead-man has acted for certain, even if it could not record that."""
RESERVE: Final = 20
"""Seconds that have to be left until the dead-man acts for a flip to begin: a good one is then not in vain.

It takes 10 at most until systemd-networkd has ended, and 5 for the bond itself; and the shortest deadline is
30. One that takes longer is taken back, and ended if it hangs: bond.sh says how.
"""
TURN: Final = 60
"""The most seconds that a flip waits for another one; fewer, so that RESERVE is left when it has its turn."""
Evidence = dict[str, str]


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class BondChanges:
    """The bonds of one host."""

    tree: Tree
    state: str
    run: Runner
    """Runs programs inside the root."""
    prefix: str = ""
    """What a program has to put before a path of the host; empty, as programs run inside the root."""
    boot_id: Callable[[], str] = current_boot
    uptime: Callable[[], float] = seconds_since_boot
    now: Callable[[], datetime] = _now

    def record(self, bond: str) -> BondRecord:
        """Return what is on disk of a bond; raises HostError for what is no name of a folder."""
        if not is_link_name(bond):
            raise HostError(f"cannot change {bond[:64]!r}: that is no name of a bond")
        return BondRecord(self.tree, self.state, bond)

    def observe(self) -> list[BondChange]:
        """Return all changes that were staged, for the status."""
        there = ((one, one.plan()) for one in records(self.tree, self.state)[:MAX_BONDS])
        return [self._told(one, plan) for one, plan in there if plan is not None]

    def _told(self, record: BondRecord, plan: BondPlan) -> BondChange:
        phase, arming = record.phase(), self._armed(record)
        if phase is Phase.ARMED and arming is None:
            phase = Phase.STAGED  # the host has booted since: the dead-man is gone, and the bond as it was
        if phase is Phase.ARMED and arming is not None and self.uptime() > arming.until + OVERDUE:
            phase = Phase.RESTORING
        if phase in (Phase.FIRED, Phase.REVERTED) and (ended := record.restored()) != 0:
            phase = Phase.RESTORING if ended is None else Phase.RESTORE_FAILED
        return BondChange(
            bond=record.bond, phase=phase, mode=plan.mode, deadline=arming.deadline if arming else None
        )

    async def stage(self, bond: str, mode: str, from_mode: str, primary: str) -> Evidence:
        """Have new files beside those that count, and a copy of these; nothing is applied."""
        plan, files = await self.planned(bond, mode, from_mode, primary)
        record = self.record(bond)
        record.stage(plan, files)
        return {"modeBefore": plan.before_mode, "mode": mode, "files": ", ".join(files)[:256],
                "staged": bond_records.digest(record.wanted_files())}  # fmt: skip

    async def planned(
        self, bond: str, mode: str, from_mode: str, primary: str
    ) -> tuple[BondPlan, dict[str, str]]:
        """Return what a change would be, and its files; raises HostError where it cannot be staged."""
        record, found = self.record(bond), links.read_bond(self.tree.root, bond)
        if self._armed(record) is not None:
            raise HostError(f"cannot stage a change of {bond}: one is armed; commit or revert it first")
        record.need_put_back("stage another change")
        if from_mode and found.mode not in (from_mode, mode):
            raise HostError(f"cannot change {bond}: its mode is {found.mode}, and not {from_mode}")
        plan, files = await bond_staging.planned(self.tree.root, self.run, found, mode, primary)
        record.need_no_links(files)
        return plan, files

    def need_staged(self, bond: str, mode: str) -> None:
        """Raise unless a change to this mode is staged."""
        self.record(bond).staged(mode)

    def need_open(self, bond: str, mode: str) -> None:
        """Raise unless a change to this mode is staged, and not committed: that is over."""
        self.need_staged(bond, mode)
        if self.record(bond).phase() is Phase.COMMITTED:
            raise HostError(f"cannot go on with {bond}: its change is committed; stage another one")

    async def arm(self, bond: str, mode: str, seconds: int, identity: str) -> Evidence:
        """Start the dead-man; one from before, with another deadline, is replaced by it."""
        record = self.record(bond)
        plan, old = record.staged(mode), self._armed(record)
        self.need_open(bond, mode)
        record.need_put_back("arm it")
        unit = deadman.unit_name(bond, identity)
        if old is None or old.unit != unit:
            if old is None:  # one that was started and not written down acts at a time that nobody knows
                await deadman.disarm_all(self.run, bond)
            command = deadman.script(self.prefix + record.folder, "restore", plan, self.prefix)
            await deadman.arm(self.run, unit, seconds, command)
            deadline = times.rfc3339(self.now() + timedelta(seconds=seconds))
            arming = Arming(unit, deadline, self.uptime() + seconds, self.boot_id())
            if old is None:
                record.arm(arming)
            elif record.rearm(arming):
                await deadman.disarm(self.run, old.unit)
            else:
                await deadman.disarm(self.run, unit)
                raise HostError(f"cannot arm {bond} anew: the dead-man has acted meanwhile; revert it")
        arming = await self._waiting(record)
        return {"deadline": arming.deadline, "unit": unit, "modeBefore": plan.before_mode}

    async def flip(self, bond: str, mode: str, seconds: float) -> Evidence:
        """Give the bond its new mode now, in the kernel alone."""
        record = self.record(bond)
        plan, found = record.staged(mode), links.read_bond(self.tree.root, bond)
        arming = await self._waiting(record)
        left = arming.until - self.uptime()
        if found.mode != plan.mode and left < RESERVE:
            raise HostError(f"cannot flip {bond}: the dead-man acts in {left:.0f} s; arm it anew")
        wait = TURN if found.mode == plan.mode else max(1, min(TURN, int(left) - RESERVE))
        command = deadman.script(self.prefix + record.folder, "flip", plan, self.prefix)
        ended = await self.run(command, timeout=seconds, finish=True, env={"NODEMANAGER_WAIT": str(wait)})
        self._need_untaken(record)
        if (why := await self._awaited(plan, leases=False)) or ended.returncode:
            said = ended.stderr.decode("utf-8", "replace").strip()[-512:]
            raise HostError(f"cannot flip {bond}: {why or f'exit status {ended.returncode}'}: {said}")
        self._need_untaken(record)
        return {"modeBefore": plan.before_mode, "modeAfter": plan.mode, "deadline": arming.deadline}

    async def commit(self, bond: str, mode: str) -> Evidence:
        """Keep the change: take it from the dead-man, then have its files in place."""
        record = self.record(bond)
        plan = record.staged(mode)
        if record.phase() is Phase.COMMITTED:
            await self._need_power(record, plan, links.read_bond(self.tree.root, bond))
        elif why := await self._awaited(plan, leases=True):  # systemd-networkd that starts takes cards down
            raise HostError(f"cannot commit the change of {bond}: {why}")
        elif not record.take(COMMITTED):
            raise HostError(f"cannot commit the change of {bond}: it is {record.phase()}, and not Armed")
        written = bond_files.put(self.tree, record, plan.mode)
        await deadman.disarm_all(self.run, bond)
        live = bond_files.live(self.tree, bond)
        if changed := [name for name, text in record.wanted_files().items() if live.get(name) != text]:
            raise HostError(
                f"cannot commit the change of {bond}: {', '.join(changed)} is not as it was written"
            )
        return {"mode": plan.mode, "written": ", ".join(written)[:256], "files": bond_records.digest(live)}

    async def _need_power(self, record: BondRecord, plan: BondPlan, found: BondState) -> None:
        """Put the bond back if power was lost after the commit was decided, before all files were installed.

        Otherwise the commit stands: if a cable is pulled later, that is no reason to have the two ends in
        different modes.
        """
        if found.mode == plan.mode or not bond_files.missing(self.tree, record):
            return
        record.begin_revert()
        await deadman.put_back(self.run, self.prefix + record.folder, plan, self.prefix)
        raise HostError(
            f"cannot commit the change of {record.bond}: its mode is {found.mode}, as the host booted before"
            " all files were in place; it is put back"
        )

    async def revert(self, bond: str) -> Evidence:
        """Put back files and mode now, even if that was begun before; without a staged plan there is no work.

        A dead cable is reported but is no failure: it may be the reason for the revert, and another try would
        not repair it.
        """
        record = self.record(bond)
        plan = record.plan()
        if plan is None:
            return {"revert": "nothing is staged"}
        if record.phase() not in (Phase.ARMED, Phase.FIRED):
            record.begin_revert()
        moves = bool(self._looks().misplaced(plan))
        await deadman.put_back(self.run, self.prefix + record.folder, plan, self.prefix)
        record.take(REVERTED)  # only now: until then the dead-man is there for when we are killed, or fail
        await deadman.disarm_all(self.run, bond)
        if why := await self._not_back(plan, moved=moves):
            raise HostError(f"cannot put {bond} back: {why}")
        return {"modeAfter": plan.before_mode, "phase": record.phase(), **self._looks().told(plan)}

    def forget(self, bond: str) -> None:
        """Remove what was staged, unless the dead-man would need it."""
        record = self.record(bond)
        if self._armed(record) is not None:
            raise HostError(f"cannot forget the change of {bond}: it is armed; revert it first")
        record.need_put_back("forget it")
        record.remove()

    async def _waiting(self, record: BondRecord) -> Arming:
        """Return the dead-man; raises unless it really waits."""
        arming = self._armed(record)
        if arming is None or not await deadman.waits(self.run, arming.unit):
            raise HostError(f"cannot go on with {record.bond}: no dead-man waits ({record.phase()}); arm it")
        return arming

    def _need_untaken(self, record: BondRecord) -> None:
        """Raise if the dead-man took a flip while it was made; one that cannot write that down acts, too."""
        arming = self._armed(record)
        if arming is None or self.uptime() >= arming.until:
            raise HostError(f"cannot flip {record.bond}: the dead-man took it meanwhile ({record.phase()})")

    def _armed(self, record: BondRecord) -> Arming | None:
        """Return the dead-man of this boot."""
        arming = record.arming()
        return arming if arming is not None and arming.boot_id == self.boot_id() else None

    async def _awaited(self, plan: BondPlan, *, leases: bool) -> str:
        """Return what is wrong with the new bond, or lacks on it, after a while; empty = nothing."""
        looks = self._looks()
        if why := await bond_looks.awaited(lambda: looks.wrong(plan, plan.mode), SETTLE):
            return why
        return await bond_looks.awaited(lambda: looks.lacking(plan, leases=leases), ADDRESSED)

    async def _not_back(self, plan: BondPlan, *, moved: bool) -> str:
        """Return how a bond is not as it was, after a while if it was moved; empty = it is."""
        looks = self._looks()
        if moved:  # links come up again, but for those that are dead
            await bond_looks.awaited(lambda: looks.wrong(plan, plan.before_mode), SETTLE)
        if why := looks.misplaced(plan) or await looks.silent(plan):
            return why
        return await bond_looks.awaited(lambda: looks.lacking(plan), ADDRESSED if moved else 0.0)

    def _looks(self) -> BondLooks:
        return BondLooks(str(self.tree.root), self.run)
