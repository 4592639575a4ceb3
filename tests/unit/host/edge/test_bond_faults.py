"""What goes wrong around a change of a bond: kills, power cuts, cables, other dead-men, odd names."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any

import pytest

from nodemanager.host.base import HostError
from nodemanager.host.edge import bond_changes, bond_records, deadman
from nodemanager.host.files.tree import Tree
from nodemanager.host.init import placing
from nodemanager.host.process.runner import RunError
from nodemanager.host.state import state_files
from support import scripts
from support.edge_host import AFTER, BEFORE, BOND, CARDS, NETDEV, NETWORKD, STATE, EdgeHost

SECONDS = 300
NETDEV_FILE = "10-bond.netdev"


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


def folder(host: EdgeHost) -> Path:
    return host.root / STATE.lstrip("/") / "bonds" / BOND


def phases(host: EdgeHost) -> list[str]:
    return [one.phase for one in host.changes().observe()]


async def test_a_cable_pulled_after_the_commit_takes_nothing_back(host: EdgeHost) -> None:
    await flipped(host)
    await host.changes().commit(BOND, AFTER)
    (host.root / "sys/class/net/eth2/bonding_slave/mii_status").write_text("down\n")
    moves = len(host.calls("ip"))
    await host.changes().commit(BOND, AFTER)
    assert (host.mode(), len(host.calls("ip")), phases(host)) == (AFTER, moves, ["Committed"])
    assert f"Mode={AFTER}" in host.files()[NETDEV_FILE]


@pytest.mark.parametrize("monitor", ["miimon", "arp_interval"])
async def test_a_card_that_is_down_after_a_flip_is_noticed_by_either_monitor(
    host: EdgeHost, monitor: str
) -> None:
    bonding = host.root / "sys/class/net" / BOND / "bonding"
    for name in ("miimon", "arp_interval"):
        (bonding / name).write_text("100\n" if name == monitor else "0\n")
    await flipped(host)
    (host.root / "sys/class/net/eth2/bonding_slave/mii_status").write_text("down\n")
    with pytest.raises(HostError, match="eth2 of bondstor is down"):
        await host.changes().commit(BOND, AFTER)


async def test_a_commit_killed_before_its_files_were_there_is_ended_though_a_cable_is_pulled(
    host: EdgeHost,
) -> None:
    await flipped(host)
    assert host.changes().record(BOND).take("committed")
    (host.root / "sys/class/net/eth2/bonding_slave/mii_status").write_text("down\n")
    assert (await host.changes().commit(BOND, AFTER))["written"] == NETDEV_FILE
    assert (host.mode(), host.timers()) == (AFTER, [])


@pytest.mark.parametrize("number", range(1, 18))
async def test_a_revert_killed_anywhere_is_ended_by_the_dead_man(host: EdgeHost, number: int) -> None:
    await flipped(host)
    host.kill_at(number)
    with pytest.raises((HostError, RunError)):
        await host.changes().revert(BOND)
    (host.world / "kill").unlink()
    assert phases(host) == ["Armed"]
    host.fire()
    assert (host.mode(), host.cards(), host.is_up()) == (BEFORE, sorted(CARDS), True)
    assert set(NETWORKD) <= set(host.units())
    assert phases(host) == ["Fired"]


async def test_a_dead_man_started_and_not_written_down_is_replaced(host: EdgeHost) -> None:
    """Who started it was killed; it would act at a time that nobody knows, and for another change."""
    for identity in ("a", "earlier"):
        await deadman.arm(host.run, deadman.unit_name(BOND, identity), 31, ["/bin/false"])
    other = deadman.unit_name(f"{BOND}-2", "a")
    await deadman.arm(host.run, other, 31, ["/bin/false"])
    await host.changes().stage(BOND, AFTER, BEFORE, "")
    await host.changes().arm(BOND, AFTER, SECONDS, "a")
    mine = f"{deadman.unit_name(BOND, 'a')}.timer"
    assert set(host.timers()) == {mine, f"{other}.timer"}
    assert (host.world / "units" / mine).read_text().startswith(f"[{SECONDS},")


async def test_a_commit_killed_before_it_stopped_the_dead_man_stops_it_when_done_again(
    host: EdgeHost,
) -> None:
    await flipped(host)
    assert host.changes().record(BOND).take("committed")
    await host.changes().commit(BOND, AFTER)
    assert host.timers() == []


async def test_how_a_bond_was_is_kept_until_it_is_so_again(host: EdgeHost) -> None:
    await flipped(host)
    good = (host.bin / "ip").read_text()
    (host.bin / "ip").write_text("#!/bin/sh\nexit 1\n")
    host.fire(whole=False)
    assert phases(host) == ["RestoreFailed"]
    with pytest.raises(HostError, match="cannot stage another change: bondstor was to be put back"):
        await host.changes().stage(BOND, AFTER, BEFORE, "")
    with pytest.raises(HostError, match="cannot forget it: bondstor was to be put back"):
        host.changes().forget(BOND)
    (host.bin / "ip").write_text(good)
    await host.changes().revert(BOND)
    assert host.mode() == BEFORE
    host.changes().forget(BOND)
    assert phases(host) == []


async def test_a_file_that_cannot_be_put_back_is_told(host: EdgeHost) -> None:
    await flipped(host)
    await host.changes().commit(BOND, AFTER)
    (host.bin / "cp").write_text("#!/bin/sh\necho no space left >&2\nexit 1\n")
    (host.bin / "cp").chmod(0o755)
    with pytest.raises(RunError, match="no space left"):
        await host.changes().revert(BOND)
    assert phases(host) == ["RestoreFailed"]
    (host.bin / "cp").unlink()
    await host.changes().revert(BOND)
    assert (host.files()[NETDEV_FILE], phases(host)) == (NETDEV, ["Reverted"])


async def test_what_the_power_left_of_the_list_of_stopped_services_is_no_obstacle(host: EdgeHost) -> None:
    await flipped(host)
    (folder(host) / "stopped").touch()  # written, and not yet on disk when the power went
    host.reboot()
    assert (await host.changes().revert(BOND))["modeAfter"] == BEFORE
    assert not (folder(host) / "stopped").exists()


@pytest.mark.parametrize("own", ["02:00:00:00:00:99", "52:54:00:00:00:01"])
async def test_a_bond_keeps_its_address(host: EdgeHost, own: str) -> None:
    """Empty, it gets another one, and then that of its first card; neighbours and DHCP know the old one."""
    address = host.root / f"sys/class/net/{BOND}/address"
    address.write_text(f"{own}\n")
    await flipped(host)
    assert address.read_text().strip() == own
    host.fire()
    assert (host.mode(), address.read_text().strip()) == (BEFORE, own)


async def test_another_primary_card_in_the_same_mode(host: EdgeHost) -> None:
    """The bond is not taken apart for it; and what had no primary card has none again."""
    primary = host.root / f"sys/class/net/{BOND}/bonding/primary"
    await host.changes().stage(BOND, BEFORE, BEFORE, "eth2")
    await host.changes().arm(BOND, BEFORE, SECONDS, "a")
    await host.changes().flip(BOND, BEFORE, 30)
    assert primary.read_text().strip() == "eth2"
    assert [one[-2:] for one in host.calls("ip")] == [["primary", "eth2"]]
    host.fire()
    assert primary.read_text().strip() == ""


@pytest.mark.parametrize("name", ["..", ".", "", "-x", "a/../..", "x" * 300, "a\nb"])
async def test_names_that_are_none(host: EdgeHost, name: str) -> None:
    kept = host.root / STATE.lstrip("/") / "kept"
    kept.touch()
    for doing in (
        host.changes().stage(name, AFTER, "", ""), host.changes().arm(name, AFTER, 30, "a"),
        host.changes().flip(name, AFTER, 30), host.changes().commit(name, AFTER), host.changes().revert(name),
    ):  # fmt: skip
        with pytest.raises(HostError, match="that is no name of a bond"):
            await doing
    with pytest.raises(HostError, match="that is no name of a bond"):
        host.changes().forget(name)
    assert kept.exists()


async def test_garbage_in_the_folder_of_changes_is_not_told_of(host: EdgeHost) -> None:
    await flipped(host)
    bonds = folder(host).parent
    plan = (folder(host) / bond_records.PLAN).read_bytes()
    for name in ("x" * 200, "a b", "\udc80"):
        (bonds / name).mkdir()
        (bonds / name / bond_records.PLAN).write_bytes(plan)
    (bonds / "file").write_bytes(b"\0")
    (bonds / "loop").symlink_to("loop")
    (bonds / "torn").mkdir()
    (bonds / "torn" / bond_records.PLAN).write_bytes(plan[: len(plan) // 2])
    assert [(one.bond, one.phase) for one in host.changes().observe()] == [(BOND, "Armed")]


async def test_a_commit_waits_for_a_card_that_is_down_for_a_moment(
    host: EdgeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the lab, where a card was down for a moment when systemd-networkd had started again."""
    await flipped(host)
    monkeypatch.setattr(bond_changes, "SETTLE", 60.0)
    state = host.root / "sys/class/net/eth2/bonding_slave/mii_status"
    state.write_text("down\n")
    committing = asyncio.ensure_future(host.changes().commit(BOND, AFTER))
    await asyncio.sleep(0)
    assert phases(host) == ["Armed"], "until it is up, the dead-man has the last word"
    state.write_text("up\n")
    await committing
    assert (host.mode(), host.timers(), phases(host)) == (AFTER, [], ["Committed"])


def owned(host: EdgeHost) -> tuple[int, int, int]:
    found = (host.root / "etc/systemd/network" / NETDEV_FILE).stat()
    return found.st_uid, found.st_gid, found.st_mode & 0o777


@pytest.mark.parametrize("way", ["revert", "dead-man"])
async def test_files_stay_whose_they_are(host: EdgeHost, way: str) -> None:
    """As files with a key in them, that only root and systemd-networkd may read."""
    path = host.root / "etc/systemd/network" / NETDEV_FILE
    path.chmod(0o640)
    if os.geteuid() == 0:  # nobody else can give files away
        os.chown(path, 3, 4)
    before = owned(host)
    await flipped(host)
    if way == "revert":
        await host.changes().commit(BOND, AFTER)
        assert owned(host) == before
        await host.changes().revert(BOND)
    else:
        path.unlink()  # somebody removed it meanwhile
        host.fire()
    assert (host.files()[NETDEV_FILE], owned(host)) == (NETDEV, before)


@pytest.mark.parametrize("number", range(1, 6))
async def test_a_revert_killed_while_it_is_written_down(
    host: EdgeHost, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """What says that it is committed goes only when something else says that it is to be put back."""
    await flipped(host)
    await host.changes().commit(BOND, AFTER)
    left, unlink, write = [number], Path.unlink, state_files.write

    def counted() -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    def unlinked(path: Path, *how: Any) -> None:
        counted()
        unlink(path, *how)

    def written(*what: Any) -> None:
        counted()
        write(*what)

    with monkeypatch.context() as killing:
        killing.setattr(Path, "unlink", unlinked)
        killing.setattr(state_files, "write", written)
        with contextlib.suppress(KeyboardInterrupt):
            await host.changes().revert(BOND)
    if host.mode() == AFTER:
        assert phases(host) in (["Committed"], ["Restoring"])
        if phases(host) == ["Restoring"]:
            with pytest.raises(HostError, match="was to be put back"):
                host.changes().forget(BOND)
    await host.changes().revert(BOND)
    assert (host.mode(), host.files()[NETDEV_FILE], phases(host)) == (BEFORE, NETDEV, ["Reverted"])


async def test_a_commit_reads_back_what_it_wrote(host: EdgeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where somebody else writes the same file, and wins."""
    await flipped(host)
    put = placing.put

    def overruled(tree: Tree, path: str, text: str, mode: int | None) -> bool:
        return put(tree, path, text.replace(AFTER, BEFORE), mode)

    with monkeypatch.context() as fighting:
        fighting.setattr(placing, "put", overruled)
        with pytest.raises(HostError, match=r"10-bond.netdev is not as it was written"):
            await host.changes().commit(BOND, AFTER)
    first = await host.changes().commit(BOND, AFTER)
    host.file("20-eth1.network", f"[Match]\nName=eth1\n# other\n[Network]\nBond={BOND}\n")
    assert (await host.changes().commit(BOND, AFTER))["files"] != first["files"], "it is that of files there"


@pytest.mark.parametrize("cards", [("eth2",), CARDS], ids=["one cable", "all cables"])
async def test_a_flip_is_taken_back_though_a_cable_died(
    host: EdgeHost, monkeypatch: pytest.MonkeyPatch, cards: tuple[str, ...]
) -> None:
    """It may be why it is taken back; that it is dead is told, and waited for once."""
    await flipped(host)
    net = host.root / "sys/class/net"
    for card in cards:
        (net / card / "bonding_slave/mii_status").write_text("down\n")
    if cards == CARDS:  # `ip link set up` of the fake says that it is up; the kernel does not without a link
        good = (host.bin / "ip").read_text()
        scripts.write(host.bin / "ip-of-kernel", good.removeprefix("#!/bin/sh\n"))
        down = f"echo down >{net}/{BOND}/operstate"
        scripts.write(host.bin / "ip", f'{host.bin}/ip-of-kernel "$@"; status=$?; {down}; exit $status')
    found = await host.changes().revert(BOND)
    dead = ", ".join(cards) if cards != CARDS else BOND
    assert found == {"modeAfter": BEFORE, "phase": "Reverted", "down": dead}
    assert (host.mode(), host.cards(), phases(host)) == (BEFORE, sorted(CARDS), ["Reverted"])
    monkeypatch.setattr(bond_changes, "SETTLE", 3600.0)
    assert (await host.changes().revert(BOND))["down"] == dead, "nothing moves, so nothing is waited for"


async def test_a_bond_that_is_left_switched_off_is_not_back(host: EdgeHost) -> None:
    await flipped(host)
    script = folder(host) / "bond.sh"
    off = 'ip link set dev "$bond" down; exit 0'
    script.write_text(script.read_text().replace('exit "$status"', off))
    with pytest.raises(HostError, match="cannot put bondstor back: bondstor is switched off"):
        await host.changes().revert(BOND)


@pytest.mark.parametrize("way", ["commit", "revert", "dead-man"])
async def test_a_primary_card_of_old_files_is_unsaid_as_long_as_the_bond_has_a_mode_without(
    host: EdgeHost, way: str
) -> None:
    """As in the lab: systemd-networkd, started again by the flip, failed that card, and left it down."""
    text = f"[Match]\nName=eth1\n\n[Network]\nBond={BOND}\nPrimarySlave=yes\n"
    host.file("20-eth1.network", text)
    over = host.root / f"run/systemd/network/20-eth1.network.d/zz-nodemanager-{BOND}.conf"
    await flipped(host)
    assert over.read_text() == "[Network]\nPrimarySlave=no\n"
    assert [one.name for one in over.parent.parent.iterdir()] == ["20-eth1.network.d"], "of no other card"
    if way == "commit":
        await host.changes().commit(BOND, AFTER)
        assert "PrimarySlave" not in host.files()["20-eth1.network"]
    elif way == "revert":
        await host.changes().revert(BOND)
    else:
        host.fire()
    assert not over.exists()
    assert way == "commit" or host.files()["20-eth1.network"] == text
