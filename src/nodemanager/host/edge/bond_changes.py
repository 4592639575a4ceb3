"""Changes the mode of a bond in steps of which each may be the last that this process did.

    stage -> arm -> flip -> commit        and from anywhere: revert, or the dead-man

Every step looks how it is, does what is missing, and looks again: so each may be done again. `networkctl
reload` is used nowhere: it succeeds, and leaves the mode of a bond as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from nodemanager.api.common.edge_state import MAX_BONDS, BondChange, BondState
from nodemanager.host.base import HostError, Runner
from nodemanager.host.edge import bond_records, deadman, links, networkd_files
from nodemanager.host.edge.bond_records import (
    COMMITTED,
    REVERTED,
    Arming,
    BondPlan,
    BondRecord,
    Phase,
    is_link_name,
    records,
)
from nodemanager.host.files.tree import Tree
from nodemanager.host.init import placing
from nodemanager.host.inventory.boot import current_boot, seconds_since_boot
from nodemanager.kube import times

SETTLE: Final = 15.0
"""Seconds in which links come up again after a flip."""
OVERDUE: Final = 60.0
"""Seconds after which a dead-man whose time has come has acted, though it could not write that down."""
RESERVE: Final = 20
"""Seconds that have to be left until the dead-man acts for a flip to begin."""
RUNTIME: Final = "/run/systemd/network"
NAP: Final = 0.2
NO_PRIMARY: Final = "None"
Evidence = dict[str, str]


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class BondChanges:
    """The bonds of one host."""

    tree: Tree
    state: str
    run: Runner
    """Runs programs inside of the root."""
    prefix: str = ""
    """What a program has to put before a path of the host; nothing, as it runs inside of its root."""
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
        record, found = self.record(bond), self._read(bond)
        if self._armed(record) is not None:
            raise HostError(f"cannot stage a change of {bond}: one is armed; commit or revert it first")
        self._need_put_back(record, "stage another change")
        if from_mode and found.mode not in (from_mode, mode):
            raise HostError(f"cannot change {bond}: its mode is {found.mode}, and not {from_mode}")
        names = tuple(one.name for one in found.slaves)
        if not names:
            raise HostError(f"cannot stage a change of {bond}: it has no cards")
        if primary and (primary not in names or mode not in networkd_files.WITH_PRIMARY):
            raise HostError(f"cannot make {primary} the primary card of {bond}: a bond of mode {mode} with"
                            f" the cards {', '.join(names)} has none such")  # fmt: skip
        await self._need_networkd(bond)
        files = networkd_files.changes(
            networkd_files.read(self.tree.root), bond, mode, primary, self._macs(names)
        )
        record.need_no_links(files)
        up = tuple(one.name for one in found.slaves if one.mii == "up")
        before = self._primary(bond)
        mac = links.address(self.tree.root, bond)
        return BondPlan(bond, mode, found.mode, names, primary, before, up, mac), files

    def need_staged(self, bond: str, mode: str) -> None:
        """Raise unless a change to this mode is staged."""
        self._plan(self.record(bond), mode)

    def need_open(self, bond: str, mode: str) -> None:
        """Raise unless a change to this mode is staged, and not committed: that is over."""
        self.need_staged(bond, mode)
        if self.record(bond).phase() is Phase.COMMITTED:
            raise HostError(f"cannot go on with {bond}: its change is committed; stage another one")

    async def arm(self, bond: str, mode: str, seconds: int, identity: str) -> Evidence:
        """Start the dead-man; one from before, with another deadline, is replaced by it."""
        record = self.record(bond)
        plan, old = self._plan(record, mode), self._armed(record)
        self.need_open(bond, mode)
        self._need_put_back(record, "arm it")
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
        plan, found = self._plan(record, mode), self._read(bond)
        arming = await self._waiting(record)
        left = arming.until - self.uptime()
        if found.mode != plan.mode and left < RESERVE:
            raise HostError(f"cannot flip {bond}: the dead-man acts in {left:.0f} s; arm it anew")
        command = deadman.script(self.prefix + record.folder, "flip", plan, self.prefix)
        ended = await self.run(command, timeout=seconds, finish=True)
        if (why := await self._awaited(plan, plan.mode)) or ended.returncode:
            said = ended.stderr.decode("utf-8", "replace").strip()[-512:]
            raise HostError(f"cannot flip {bond}: {why or f'exit status {ended.returncode}'}: {said}")
        return {"modeBefore": plan.before_mode, "modeAfter": plan.mode, "deadline": arming.deadline}

    async def commit(self, bond: str, mode: str) -> Evidence:
        """Keep the change: take it from the dead-man, then have its files in place."""
        record = self.record(bond)
        plan = self._plan(record, mode)
        if record.phase() is Phase.COMMITTED:
            await self._need_power(record, plan, self._read(bond))
        elif why := await self._awaited(plan, plan.mode):  # systemd-networkd that starts takes cards down
            raise HostError(f"cannot commit the change of {bond}: {why}")
        elif not record.take(COMMITTED):
            raise HostError(f"cannot commit the change of {bond}: it is {record.phase()}, and not Armed")
        written = self._put(record, plan.mode)
        await deadman.disarm_all(self.run, bond)
        live = {name: one.text for name, one in self._live(bond).items()}
        if changed := [name for name, text in record.wanted_files().items() if live.get(name) != text]:
            raise HostError(
                f"cannot commit the change of {bond}: {', '.join(changed)} is not as it was written"
            )
        return {"mode": plan.mode, "written": ", ".join(written)[:256], "files": bond_records.digest(live)}

    async def _need_power(self, record: BondRecord, plan: BondPlan, found: BondState) -> None:
        """Put back what was taken from the dead-man before the power went, and before all files were there.

        Else what was decided stays so: a cable that is pulled later is no reason to have one end in another
        mode than the other.
        """
        if found.mode == plan.mode or not self._missing(record):
            return
        record.begin_revert()
        await self._run_back(record, plan)
        raise HostError(
            f"cannot commit the change of {record.bond}: its mode is {found.mode}, as the host booted before"
            " all files were in place; it is put back"
        )

    async def revert(self, bond: str) -> Evidence:
        """Put back files and mode now, whoever has begun to; nothing staged is nothing to put back.

        A cable that is dead is told, and is no failure: it may be why this is taken back, and nothing that
        could be done again brings it to life.
        """
        record = self.record(bond)
        plan = record.plan()
        if plan is None:
            return {"revert": "nothing is staged"}
        if record.phase() not in (Phase.ARMED, Phase.FIRED):
            record.begin_revert()
        moves = bool(self._misplaced(plan))
        await self._run_back(record, plan)
        record.take(REVERTED)  # only now: until then the dead-man is there for when we are killed, or fail
        await deadman.disarm_all(self.run, bond)
        if moves:
            await self._awaited(plan, plan.before_mode)  # links come up again, but for those that are dead
        if why := self._misplaced(plan):
            raise HostError(f"cannot put {bond} back: {why}")
        dead = down(self._read(bond), plan)
        said = {"down": ", ".join(dead)} if dead else {}
        return {"modeAfter": plan.before_mode, "phase": record.phase(), **said}

    def forget(self, bond: str) -> None:
        """Remove what was staged, unless the dead-man would need it."""
        record = self.record(bond)
        if self._armed(record) is not None:
            raise HostError(f"cannot forget the change of {bond}: it is armed; revert it first")
        self._need_put_back(record, "forget it")
        record.remove()

    def _need_put_back(self, record: BondRecord, what: str) -> None:
        """Keep how a bond was as long as it is not so again: nobody else knows."""
        begun = record.plan() is not None and record.phase() in (Phase.FIRED, Phase.REVERTED)
        if begun and record.restored() != 0:
            raise HostError(
                f"cannot {what}: {record.bond} was to be put back, and that is not done; revert it first"
            )

    async def _run_back(self, record: BondRecord, plan: BondPlan) -> None:
        command = deadman.script(self.prefix + record.folder, "revert", plan, self.prefix)
        (await self.run(command, timeout=120.0, finish=True)).check()

    def _put(self, record: BondRecord, mode: str) -> list[str]:
        """Put the new files in place, those that are different; the flip need not overrule them any more."""
        wanted = record.wanted_files()
        written = [
            name for name in networkd_files.in_order(wanted, mode)
            if placing.put(self.tree, f"{networkd_files.ETC}/{name}", wanted[name], None)
        ]  # fmt: skip
        overruling = f"*.network.d/zz-nodemanager-{record.bond}.conf"
        for one in Path(self.tree.outside(RUNTIME)).glob(overruling):
            one.unlink(missing_ok=True)
        return written

    def _missing(self, record: BondRecord) -> bool:
        """Tell whether new files are not in place."""
        wanted = record.wanted_files()
        return any(placing.read(self.tree, f"{networkd_files.ETC}/{name}") != text
                   for name, text in wanted.items())  # fmt: skip

    async def _waiting(self, record: BondRecord) -> Arming:
        """Return the dead-man; raises unless it really waits."""
        arming = self._armed(record)
        if arming is None or not await deadman.waits(self.run, arming.unit):
            raise HostError(f"cannot go on with {record.bond}: no dead-man waits ({record.phase()}); arm it")
        return arming

    def _armed(self, record: BondRecord) -> Arming | None:
        """Return the dead-man of this boot."""
        arming = record.arming()
        return arming if arming is not None and arming.boot_id == self.boot_id() else None

    def _plan(self, record: BondRecord, mode: str) -> BondPlan:
        plan = record.staged()
        if plan.mode != mode:
            raise HostError(f"cannot go on with {record.bond}: {plan.mode} is staged, and not {mode}")
        return plan

    async def _awaited(self, plan: BondPlan, mode: str) -> str:
        """Return what is wrong with the bond after a while; empty = it is as it shall be."""
        until = asyncio.get_running_loop().time() + SETTLE
        while why := wrong(self._read(plan.bond), plan, mode):
            if asyncio.get_running_loop().time() >= until:
                return why
            await asyncio.sleep(NAP)
        return ""

    def _misplaced(self, plan: BondPlan) -> str:
        """Return how a bond is not as it was before, its cables left aside; empty = it is."""
        try:
            found = self._read(plan.bond)
        except HostError as error:
            return str(error)
        up = links.is_up(self.tree.root, plan.bond)
        return misplaced(found, plan, plan.before_mode) or ("" if up else f"{plan.bond} is switched off")

    async def _need_networkd(self, bond: str) -> None:
        argv = ["systemctl", "is-active", "--quiet", "systemd-networkd.service"]
        if (await self.run(argv, timeout=30.0)).returncode:
            raise HostError(
                f"cannot stage a change of {bond}: systemd-networkd does not run, so its files count nothing"
            )

    def _read(self, bond: str) -> BondState:
        return links.read_bond(self.tree.root, bond)

    def _live(self, bond: str) -> dict[str, networkd_files.Found]:
        return networkd_files.of_bond(networkd_files.read(self.tree.root), bond)

    def _macs(self, names: tuple[str, ...]) -> dict[str, str]:
        return {name: links.permanent_address(self.tree.root, name) for name in names}

    def _primary(self, bond: str) -> str:
        found = links.primary(self.tree.root, bond)
        return "" if found == NO_PRIMARY else found


def wrong(found: BondState, plan: BondPlan, mode: str) -> str:
    """Return how a bond differs from what it shall be; pure."""
    if why := misplaced(found, plan, mode):
        return why
    if dead := down(found, plan):
        return f"{dead[0]} is down" if dead == [found.name] else f"{', '.join(dead)} of {found.name} is down"
    return ""


def misplaced(found: BondState, plan: BondPlan, mode: str) -> str:
    """Return how mode and cards of a bond differ from what they shall be; pure."""
    if found.mode != mode:
        return f"the mode of {found.name} is {found.mode}, and not {mode}"
    have = {one.name for one in found.slaves}
    if missing := [name for name in plan.slaves if name not in have]:
        return f"{', '.join(missing)} is not in {found.name}"
    return ""


def down(found: BondState, plan: BondPlan) -> list[str]:
    """Return the bond, or the cards of it, that were up once and have no link now; pure."""
    if plan.up and found.state == "down":
        return [found.name]
    mii = {one.name: one.mii for one in found.slaves}
    return [name for name in plan.up if found.monitor and mii.get(name) != "up"]
