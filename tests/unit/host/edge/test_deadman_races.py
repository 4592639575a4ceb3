"""A dead-man that acts while somebody arms another one: one of them has the change, and nobody else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import pytest

from nodemanager.host.base import HostError, How
from nodemanager.host.edge import bond_changes
from nodemanager.host.edge.bond_records import BondRecord
from nodemanager.host.process.runner import Completed
from support.edge_host import AFTER, BEFORE, BOND, CARDS, NETDEV, EdgeHost

SECONDS = 300


@pytest.fixture(name="host")
def _host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EdgeHost:
    monkeypatch.setattr(bond_changes, "SETTLE", 0.0)
    host = EdgeHost(tmp_path)
    host.make()
    return host


async def flipped(host: EdgeHost) -> None:
    await host.changes().stage(BOND, AFTER, BEFORE, "")
    await host.changes().arm(BOND, AFTER, SECONDS, "a")
    await host.changes().flip(BOND, AFTER, 30)


def phases(host: EdgeHost) -> list[str]:
    return [one.phase for one in host.changes().observe()]


def as_it_was(host: EdgeHost) -> bool:
    there = host.mode(), host.cards(), host.files()["10-bond.netdev"]
    return there == (BEFORE, sorted(CARDS), NETDEV)


def begin_to_act(host: EdgeHost) -> None:
    """Have the dead-man begin, and stand still before it changed the mode."""
    host.kill_at(1)
    host.fire(whole=False)
    (host.world / "kill").unlink()
    assert host.mode() == AFTER


def arming_too_late(host: EdgeHost) -> bond_changes.BondChanges:
    """Return an agent that has another dead-man started just when the one from before acts."""

    async def run(argv: Sequence[str], **how: Unpack[How]) -> Completed:
        if argv[0] == "systemd-run":
            begin_to_act(host)
        return await host.run(argv, **how)

    return replace(host.changes(), run=run)


async def test_what_the_dead_man_has_taken_is_not_armed_anew_nor_committed(host: EdgeHost) -> None:
    """It would go on putting the bond back, below files that say the new mode."""
    await flipped(host)
    with pytest.raises(HostError, match="cannot arm bondstor anew: the dead-man has acted meanwhile"):
        await arming_too_late(host).arm(BOND, AFTER, 600, "b")
    assert (phases(host), host.timers()) == (["Restoring"], [])
    with pytest.raises(HostError, match="it is Fired, and not Armed"):
        await host.changes().commit(BOND, AFTER)
    with pytest.raises(HostError, match="cannot arm it: bondstor was to be put back"):
        await host.changes().arm(BOND, AFTER, 600, "c")
    await host.changes().revert(BOND)
    assert as_it_was(host)


async def test_one_who_is_killed_before_it_saw_that_the_dead_man_acted(
    host: EdgeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    await flipped(host)
    write = BondRecord._write

    def killed(record: BondRecord, name: str, data: bytes) -> None:
        write(record, name, data)
        raise KeyboardInterrupt

    with monkeypatch.context() as killing:
        killing.setattr(BondRecord, "_write", killed)
        with pytest.raises(KeyboardInterrupt):
            await arming_too_late(host).arm(BOND, AFTER, 600, "b")
    assert len(host.timers()) == 1
    assert phases(host) == ["Restoring"]
    for late in (host.changes().commit(BOND, AFTER), host.changes().flip(BOND, AFTER, 30)):
        with pytest.raises(HostError, match="Fired"):
            await late
    assert (await host.changes().revert(BOND))["modeAfter"] == BEFORE
    assert (as_it_was(host), host.timers()) == (True, [])
    await host.changes().arm(BOND, AFTER, SECONDS, "c")
    await host.changes().flip(BOND, AFTER, 30)
    await host.changes().commit(BOND, AFTER)
    assert (host.mode(), phases(host)) == (AFTER, ["Committed"])


async def test_how_an_earlier_putting_back_ended_does_not_count(
    host: EdgeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An undo was killed when all but its last word was done, and somebody flipped the bond again."""
    await flipped(host)

    def killed(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as killing:
        killing.setattr(BondRecord, "take", killed)
        with pytest.raises(KeyboardInterrupt):
            await host.changes().revert(BOND)
    await host.changes().flip(BOND, AFTER, 30)
    begin_to_act(host)
    assert phases(host) == ["Restoring"]
    with pytest.raises(HostError, match="was to be put back, and that is not done"):
        host.changes().forget(BOND)


async def test_a_dead_man_that_acts_between_two_looks_leaves_no_change_that_is_only_staged(
    host: EdgeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    await flipped(host)
    exists = Path.exists

    def fired(path: Path) -> bool:
        if path.name == "armed":
            path.rename(path.with_name("fired"))
        return exists(path)

    with monkeypatch.context() as acting:
        acting.setattr(Path, "exists", fired)
        assert host.changes().record(BOND).phase() == "Fired"
