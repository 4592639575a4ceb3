"""The mode of a bond, changed in steps: agents killed between any two, flips anywhere, a dead-man."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from nodemanager.api.common.edge_state import BondChange
from nodemanager.host.base import HostError
from nodemanager.host.edge import bond_changes, deadman
from nodemanager.host.edge.bond_changes import RESERVE
from support.edge_host import AFTER, BEFORE, BOND, CARDS, NETDEV, NETWORKD, EdgeHost

SECONDS = 300


@pytest.fixture(name="host")
def _host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EdgeHost:
    monkeypatch.setattr(bond_changes, "SETTLE", 0.0)  # links of a folder come up at once, or never
    host = EdgeHost(tmp_path)
    host.make()
    return host


async def staged(host: EdgeHost) -> None:
    await host.changes().stage(BOND, AFTER, BEFORE, "")


async def armed(host: EdgeHost) -> None:
    await staged(host)
    await host.changes().arm(BOND, AFTER, SECONDS, "a")


async def flipped(host: EdgeHost) -> None:
    await armed(host)
    await host.changes().flip(BOND, AFTER, 30)


def as_it_was(host: EdgeHost) -> bool:
    return (
        host.mode() == BEFORE
        and host.cards() == sorted(CARDS)
        and host.files()["10-bond.netdev"] == NETDEV
        and host.is_up()
        and set(NETWORKD) <= set(host.units())
    )


def dangling(host: EdgeHost, name: str) -> None:
    link = host.root / "etc/systemd/network" / name
    link.parent.mkdir()
    link.symlink_to("nowhere")


async def test_all_the_way(host: EdgeHost) -> None:
    before = host.files()
    evidence = await host.changes().stage(BOND, AFTER, BEFORE, "")
    assert evidence["files"] == "10-bond.netdev"
    assert host.files() == before, "nothing is applied"
    assert host.calls("ip") == []
    evidence = await host.changes().arm(BOND, AFTER, SECONDS, "a")
    assert (evidence["deadline"], host.timers()) == (
        "2026-11-17T12:05:00Z", [f"{deadman.unit_name(BOND, 'a')}.timer"]
    )  # fmt: skip
    assert host.changes().observe() == [
        BondChange(bond=BOND, phase="Armed", mode=AFTER, deadline="2026-11-17T12:05:00Z")
    ]
    await host.changes().flip(BOND, AFTER, 30)
    assert (host.mode(), host.cards(), host.files()) == (AFTER, sorted(CARDS), before)
    evidence = await host.changes().commit(BOND, AFTER)
    assert evidence["written"] == "10-bond.netdev"
    assert host.files() == {**before, "10-bond.netdev": NETDEV.replace(BEFORE, AFTER)}
    assert host.units() == sorted(NETWORKD), "networkd is on again, and the dead-man off"
    assert host.changes().observe() == [BondChange(bond=BOND, phase="Committed", mode=AFTER)]
    host.reboot()
    assert host.mode() == AFTER


async def test_each_step_again_changes_nothing_more(host: EdgeHost) -> None:
    await flipped(host)
    calls = len(host.calls("ip"))
    await host.changes().arm(BOND, AFTER, SECONDS, "a")
    await host.changes().flip(BOND, AFTER, 30)
    await host.changes().commit(BOND, AFTER)
    times = {one: (host.root / "etc/systemd/network" / one).stat().st_mtime_ns for one in host.files()}
    assert (await host.changes().commit(BOND, AFTER))["written"] == "", "only what is different is written"
    assert len(host.calls("ip")) == calls
    assert times == {one: (host.root / "etc/systemd/network" / one).stat().st_mtime_ns for one in times}
    assert len(host.calls("systemd-run")) == 1


async def test_networkd_is_off_while_the_bond_is_in_pieces(host: EdgeHost) -> None:
    await flipped(host)
    words = [one[0] if one[0] == "ip" else " ".join(one[1:2]) for one in host.calls()]
    stopped, started = words.index("stop"), words.index("start")
    moves = [place for place, word in enumerate(words) if word == "ip"]
    assert stopped < moves[0]
    assert moves[-1] < started


@pytest.mark.parametrize("begun", [armed, flipped], ids=["armed", "flipped"])
async def test_without_an_agent_the_dead_man_puts_it_back(
    host: EdgeHost, begun: Callable[[EdgeHost], Awaitable[None]]
) -> None:
    await begun(host)
    host.fire()
    assert as_it_was(host)
    assert host.changes().observe() == [BondChange(bond=BOND, phase="Fired", mode=AFTER)]
    for late in (host.changes().flip(BOND, AFTER, 30), host.changes().commit(BOND, AFTER)):
        with pytest.raises(HostError, match=r"Fired|the mode of"):
            await late
    assert as_it_was(host)


@pytest.mark.parametrize("number", range(2, 18))
async def test_a_flip_that_is_killed_anywhere(host: EdgeHost, number: int) -> None:
    """Both ways out: the next agent goes on, or nobody does and the dead-man puts it back."""
    for way in ("again", "dead-man"):
        await armed(host)
        host.kill_at(number)  # the first call is our own: whether the dead-man waits
        with pytest.raises(HostError, match="cannot flip"):
            await host.changes().flip(BOND, AFTER, 30)
        (host.world / "kill").unlink()
        if way == "again":
            await host.changes().flip(BOND, AFTER, 30)
            assert (host.mode(), host.cards(), host.is_up()) == (AFTER, sorted(CARDS), True)
            assert set(NETWORKD) <= set(host.units())
            await host.changes().revert(BOND)
        else:
            host.fire()
        assert as_it_was(host)


@pytest.mark.parametrize("number", range(1, 18, 2))
async def test_a_dead_man_that_is_killed_is_finished_by_revert(host: EdgeHost, number: int) -> None:
    await flipped(host)
    host.kill_at(number)
    host.fire(whole=False)
    (host.world / "kill").unlink()
    assert [one.phase for one in host.changes().observe()] == ["Restoring"]
    assert (await host.changes().revert(BOND))["phase"] == "Fired"
    assert as_it_was(host)


async def test_a_dead_man_that_cannot_put_it_back_says_so(host: EdgeHost) -> None:
    await flipped(host)
    good = (host.bin / "ip").read_text()
    (host.bin / "ip").write_text("#!/bin/sh\nexit 1\n")
    host.fire(whole=False)
    assert [one.phase for one in host.changes().observe()] == ["RestoreFailed"]
    assert host.files()["10-bond.netdev"] == NETDEV
    assert set(NETWORKD) <= set(host.units())
    (host.bin / "ip").write_text(good)
    await host.changes().revert(BOND)
    assert as_it_was(host)
    assert [one.phase for one in host.changes().observe()] == ["Fired"]


async def test_a_host_that_boots_before_the_commit_has_its_bond_as_it_was(host: EdgeHost) -> None:
    await flipped(host)
    host.reboot()
    assert as_it_was(host)
    assert host.changes().observe() == [BondChange(bond=BOND, phase="Staged", mode=AFTER)]
    with pytest.raises(HostError, match="the mode of bondstor is active-backup, and not balance-rr"):
        await host.changes().commit(BOND, AFTER)
    with pytest.raises(HostError, match="no dead-man waits"):
        await host.changes().flip(BOND, AFTER, 30)
    assert (await host.changes().revert(BOND))["modeAfter"] == BEFORE


async def test_power_that_goes_in_the_middle_of_a_commit(host: EdgeHost) -> None:
    """It was taken from the dead-man, and no file was in place yet."""
    await flipped(host)
    assert host.changes().record(BOND).take("committed")
    host.reboot()
    with pytest.raises(HostError, match="its mode is active-backup, as the host booted before"):
        await host.changes().commit(BOND, AFTER)
    assert as_it_was(host)
    assert [one.phase for one in host.changes().observe()] == ["Reverted"]


async def test_a_commit_that_was_killed_after_it_took_the_change_goes_on(host: EdgeHost) -> None:
    await flipped(host)
    assert host.changes().record(BOND).take("committed")
    host.fire()
    assert host.mode() == AFTER, "the dead-man finds that somebody else took it"
    assert (await host.changes().commit(BOND, AFTER))["written"] == "10-bond.netdev"


async def test_what_is_committed_can_be_reverted(host: EdgeHost) -> None:
    await flipped(host)
    await host.changes().commit(BOND, AFTER)
    assert (await host.changes().revert(BOND))["phase"] == "Reverted"
    assert as_it_was(host)
    await host.changes().revert(BOND)
    assert as_it_was(host)


async def test_nothing_flips_without_a_dead_man(host: EdgeHost) -> None:
    with pytest.raises(HostError, match="no change of it is staged"):
        await host.changes().arm(BOND, AFTER, SECONDS, "a")
    await staged(host)
    with pytest.raises(HostError, match=r"no dead-man waits \(Staged\); arm it"):
        await host.changes().flip(BOND, AFTER, 30)
    await host.changes().arm(BOND, AFTER, SECONDS, "a")
    with pytest.raises(HostError, match="balance-rr is staged, and not broadcast"):
        await host.changes().flip(BOND, "broadcast", 30)
    host.uptime += SECONDS - RESERVE + 1
    with pytest.raises(HostError, match=f"the dead-man acts in {RESERVE - 1} s; arm it anew"):
        await host.changes().flip(BOND, AFTER, 30)
    (host.world / "units" / host.timers()[0]).unlink()  # somebody stopped it by hand
    with pytest.raises(HostError, match="no dead-man waits"):
        await host.changes().flip(BOND, AFTER, 30)
    assert host.calls("ip") == []


async def test_armed_anew_there_is_one_dead_man_with_a_later_deadline(host: EdgeHost) -> None:
    await armed(host)
    host.uptime += SECONDS - 1
    await host.changes().arm(BOND, AFTER, 600, "b")
    assert host.timers() == [f"{deadman.unit_name(BOND, 'b')}.timer"]
    await host.changes().flip(BOND, AFTER, 30)
    assert host.mode() == AFTER


async def test_what_is_armed_is_not_staged_anew_nor_forgotten(host: EdgeHost) -> None:
    await armed(host)
    with pytest.raises(HostError, match="one is armed; commit or revert it first"):
        await staged(host)
    with pytest.raises(HostError, match="it is armed; revert it first"):
        host.changes().forget(BOND)
    await host.changes().revert(BOND)
    host.changes().forget(BOND)
    assert host.changes().observe() == []
    assert await host.changes().revert(BOND) == {"revert": "nothing is staged"}


async def test_a_file_that_was_not_in_etc_is_removed_again(host: EdgeHost) -> None:
    vendor = host.root / "usr/lib/systemd/network/10-bond.netdev"
    vendor.parent.mkdir(parents=True)
    (host.root / "etc/systemd/network/10-bond.netdev").rename(vendor)
    await flipped(host)
    await host.changes().commit(BOND, AFTER)
    assert f"Mode={AFTER}" in host.files()["10-bond.netdev"]
    await host.changes().revert(BOND)
    assert "10-bond.netdev" not in host.files()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        pytest.param(lambda host: host.file("10-bond.netdev", "[NetDev]\nName=x\nKind=bond\n"),
                     "no .netdev file does declare it", id="no file"),
        pytest.param(lambda host: host.file("11.netdev", NETDEV), "10-bond.netdev, 11.netdev do", id="two"),
        pytest.param(lambda host: (host.world / "units/systemd-networkd.service").unlink(),
                     "systemd-networkd does not run", id="no networkd"),
        pytest.param(lambda host: (host.root / f"sys/class/net/{BOND}/bonding/mode").write_text("802.3ad 4"),
                     "its mode is 802.3ad, and not active-backup", id="another mode"),
        pytest.param(lambda host: (host.root / f"sys/class/net/{BOND}/bonding/slaves").write_text(""),
                     "it has no cards", id="no cards"),
        pytest.param(lambda host: dangling(host, "10-bond.netdev.d/site.conf"),
                     r"cannot read .*10-bond.netdev.d/site.conf: No such file or directory; remove it",
                     id="a drop-in that is a link to nothing"),
    ],
)  # fmt: skip
async def test_what_cannot_be_staged(host: EdgeHost, spoil: Callable[[EdgeHost], object], said: str) -> None:
    spoil(host)
    with pytest.raises(HostError, match=said):
        await staged(host)
    assert host.changes().observe() == []


async def test_a_drop_in_that_sets_the_mode_is_named(host: EdgeHost) -> None:
    (host.root / "etc/systemd/network/10-bond.netdev.d").mkdir()
    host.file("10-bond.netdev.d/site.conf", "[Bond]\nMode=active-backup\n")
    with pytest.raises(HostError, match=r"10-bond.netdev.d/site.conf sets Mode=, too; remove it there"):
        await staged(host)


async def test_the_primary_card_is_kept_in_the_files_and_put_back(host: EdgeHost) -> None:
    (host.root / f"sys/class/net/{BOND}/bonding/mode").write_text(f"{AFTER} 0\n")
    host.file("10-bond.netdev", NETDEV.replace(BEFORE, AFTER))
    host.file("20-eth2.network", f"[Match]\nMACAddress=52:54:00:00:00:01\n[Network]\nBond={BOND}\n")
    before = host.files()
    await host.changes().stage(BOND, BEFORE, AFTER, "eth2")
    await host.changes().arm(BOND, BEFORE, SECONDS, "a")
    await host.changes().flip(BOND, BEFORE, 30)
    assert (host.root / f"sys/class/net/{BOND}/bonding/primary").read_text() == "eth2\n"
    await host.changes().commit(BOND, BEFORE)
    assert "PrimarySlave=yes" in host.files()["20-eth2.network"]
    assert host.files()["20-eth1.network"] == before["20-eth1.network"]
    await host.changes().revert(BOND)
    assert host.files() == before
    with pytest.raises(HostError, match="cannot make eth9 the primary card"):
        await host.changes().stage(BOND, BEFORE, AFTER, "eth9")


async def test_links_that_do_not_come_back_are_a_failure(host: EdgeHost) -> None:
    await armed(host)
    (host.root / "sys/class/net/eth2/bonding_slave/mii_status").write_text("down\n")
    with pytest.raises(HostError, match="cannot flip bondstor: eth2 of bondstor is down"):
        await host.changes().flip(BOND, AFTER, 30)
    host.fire()
    assert as_it_was(host)


async def test_a_change_that_is_refused_for_a_link_leaves_the_one_before(host: EdgeHost) -> None:
    await flipped(host)
    await host.changes().commit(BOND, AFTER)
    live = host.root / "etc/systemd/network" / "10-bond.netdev"
    live.rename(live.with_name("elsewhere"))
    live.symlink_to("elsewhere")
    with pytest.raises(HostError, match=r"10-bond.netdev: it is a link, which somebody else made"):
        await host.changes().stage(BOND, BEFORE, AFTER, "")
    assert [one.phase for one in host.changes().observe()] == ["Committed"], "who wants that back needs it"
