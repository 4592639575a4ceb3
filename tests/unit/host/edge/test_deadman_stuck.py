"""A flip that hangs while the dead-man acts: when that is done, nothing of it changes the bond any more."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodemanager.host.base import HostError
from nodemanager.host.edge import bond_changes, deadman
from nodemanager.host.edge.bond_changes import RESERVE, TURN
from support import scripts
from support.edge_host import AFTER, BEFORE, BOND, CARDS, NETDEV, NETWORKD, STATE, EdgeHost

SECONDS = 300
PLACES = (
    "systemctl is-active --quiet systemd-networkd.socket",
    "systemctl stop systemd-networkd.socket",
    "systemctl kill --signal=SIGUSR2 systemd-networkd.service",
    f"ip link set dev {BOND} down",
    f"ip link set dev eth2 master {BOND}",
    f"ip link set dev {BOND} up",
    "systemctl start systemd-networkd.service systemd-networkd.socket",
)
"""Calls of a flip, in their order."""


@pytest.fixture(name="host")
def _host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EdgeHost]:
    monkeypatch.setattr(bond_changes, "SETTLE", 0.0)
    host = EdgeHost(tmp_path)
    host.make()
    os.mkfifo(host.world / "wake")
    patience(host, "1")
    yield host
    wake(host)  # nothing hangs on when a test has failed


def patience(host: EdgeHost, seconds: str) -> None:
    """Have everybody wait so long for the lock; what they would have waited is noted."""
    note = f'echo "$2" >>{host.world}/waits; shift 2'
    scripts.write(host.bin / "flock", f'{note}; exec /usr/bin/env -i /usr/bin/flock -w {seconds} "$@"')


def hang_at(host: EdgeHost, call: str) -> None:
    """Have the first such call hang until it is woken; nothing is done before."""
    name, _, words = call.partition(" ")
    text = (host.bin / name).read_text().removeprefix("#!/bin/sh\n")
    first = f'[ "$*" = "{words}" ] && mkdir {host.world}/trapped 2>/dev/null'
    hang = f"exec 7<>{host.world}/wake; : >{host.world}/hung; read -r _ <&7; exec 7>&-"
    scripts.write(host.bin / name, f"if {first}; then {hang}; fi\n{text}")


async def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def wake(host: EdgeHost) -> None:
    """Have what hangs go on, if it is still there."""
    with contextlib.suppress(OSError):  # nobody reads
        pipe = os.open(host.world / "wake", os.O_WRONLY | os.O_NONBLOCK)
        os.write(pipe, b"\n")
        os.close(pipe)


async def armed(host: EdgeHost, bond: str = BOND) -> None:
    await host.changes().stage(bond, AFTER, BEFORE, "")
    await host.changes().arm(bond, AFTER, SECONDS, "a")


def flip_command(host: EdgeHost, bond: str = BOND) -> list[str]:
    record = host.changes().record(bond)
    return deadman.script(f"{host.root}{record.folder}", "flip", record.staged(AFTER), str(host.root))


def start_flip(host: EdgeHost, bond: str = BOND) -> subprocess.Popen[bytes]:
    with (host.world / "said").open("wb") as said:
        return subprocess.Popen(flip_command(host, bond), env=host.env(), stderr=said)


def phases(host: EdgeHost) -> list[str]:
    return [one.phase for one in host.changes().observe()]


def as_it_was(host: EdgeHost) -> bool:
    return (
        (host.mode(), host.cards(), host.is_up()) == (BEFORE, sorted(CARDS), True)
        and host.files()["10-bond.netdev"] == NETDEV
        and set(NETWORKD) <= set(host.units())
    )


@pytest.mark.parametrize("place", PLACES)
async def test_nothing_of_a_flip_that_hangs_is_left_when_the_dead_man_is_done(
    host: EdgeHost, place: str
) -> None:
    await armed(host)
    hang_at(host, place)
    flip = asyncio.ensure_future(host.changes().flip(BOND, AFTER, 60))
    await until((host.world / "hung").exists)
    await asyncio.to_thread(host.fire)
    assert as_it_was(host)
    wake(host)
    with pytest.raises(HostError, match=r"cannot flip bondstor: the dead-man took it meanwhile \(Fired\)"):
        await flip
    assert as_it_was(host)
    assert phases(host) == ["Fired"]


async def test_so_is_one_whose_disk_takes_nothing(host: EdgeHost) -> None:
    """Neither is `armed` taken then, nor is it written down that systemd-networkd was stopped."""
    await armed(host)
    scripts.write(host.bin / "mv", "exit 1")
    hang_at(host, f"ip link set dev {BOND} down")
    flip = asyncio.ensure_future(host.changes().flip(BOND, AFTER, 60))
    await until((host.world / "hung").exists)
    (host.root / STATE.lstrip("/") / "bonds" / BOND / "stopped").unlink()
    host.uptime += SECONDS
    await asyncio.to_thread(host.fire)
    wake(host)
    with pytest.raises(HostError, match=r"the dead-man took it meanwhile \(Armed\)"):
        await flip
    assert (host.mode(), "systemd-networkd.service" in host.units()) == (BEFORE, True)


async def test_an_undo_ends_it_too(host: EdgeHost) -> None:
    """As after a step whose time is over, while its flip was left to itself."""
    await armed(host)
    hang_at(host, PLACES[1])
    stuck = start_flip(host)
    await until((host.world / "hung").exists)
    await host.changes().revert(BOND)
    wake(host)
    assert stuck.wait(60) == -9
    assert as_it_was(host)
    assert phases(host) == ["Reverted"]


async def test_one_that_could_not_be_ended_looks_again_before_it_changes_anything(host: EdgeHost) -> None:
    await armed(host)
    hang_at(host, PLACES[1])
    stuck = start_flip(host)
    await until((host.world / "hung").exists)
    assert host.changes().record(BOND).take("fired")
    wake(host)
    assert stuck.wait(60) == 1
    assert (host.world / "said").read_text() == "it was put back meanwhile\n"
    assert host.calls("ip") == []
    assert set(NETWORKD) <= set(host.units())


async def test_a_primary_card_is_not_set_either(host: EdgeHost) -> None:
    await host.changes().stage(BOND, BEFORE, BEFORE, "eth2")
    await host.changes().arm(BOND, BEFORE, SECONDS, "a")
    folder = f"{host.root}{host.changes().record(BOND).folder}"
    taken = f"case $1 in */primary) mv {folder}/armed {folder}/fired ;; esac"
    scripts.write(host.bin / "cat", f'{taken}\nexec /bin/cat "$@"')
    with pytest.raises(HostError, match=r"the dead-man took it meanwhile \(Fired\)"):
        await host.changes().flip(BOND, BEFORE, 60)
    assert host.bonding("primary") == ""


async def test_a_flip_of_another_bond_is_left_alone(host: EdgeHost) -> None:
    """Its own dead-man waits; ended, it would be in pieces until that one acts."""
    host.another("bondmgmt", ("eth3", "eth4"))
    await armed(host)
    command = host.timers()
    await armed(host, "bondmgmt")
    hang_at(host, PLACES[1])
    stuck = start_flip(host, "bondmgmt")
    await until((host.world / "hung").exists)
    other = next(one for one in host.timers() if one not in command)
    kept = (host.world / "units" / other).rename(host.world / other)
    await asyncio.to_thread(host.fire)
    assert as_it_was(host)
    kept.rename(host.world / "units" / other)
    assert stuck.poll() is None
    wake(host)
    assert stuck.wait(60) == 0
    assert (host.root / "sys/class/net/bondmgmt/bonding/mode").read_text().split()[0] == AFTER


async def test_a_flip_waits_for_its_turn_only_as_long_as_its_reserve_is_left(host: EdgeHost) -> None:
    await armed(host)
    host.uptime += SECONDS - RESERVE - 7
    patience(host, "60")
    await host.changes().flip(BOND, AFTER, 60)
    host.uptime += RESERVE
    await host.changes().flip(BOND, AFTER, 60)
    waits = (host.world / "waits").read_text().split()
    assert waits == ["7", str(TURN)], "one that has its mode already changes nothing"
