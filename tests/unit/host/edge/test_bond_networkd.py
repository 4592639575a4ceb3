"""What becomes of systemd-networkd, which is the same for all bonds and cards of a host."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from nodemanager.host import edge
from nodemanager.host.base import HostError
from nodemanager.host.edge import bond_changes
from support import scripts
from support.edge_host import AFTER, BEFORE, BOND, CARDS, NETWORKD, STATE, EdgeHost

SECONDS = 300
OTHER, OTHERS = "bondmgmt", ("eth3", "eth4")
SCRIPT = (resources.files(edge) / "bond.sh").read_text()


@pytest.fixture(name="host")
def _host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EdgeHost:
    monkeypatch.setattr(bond_changes, "SETTLE", 0.0)
    host = EdgeHost(tmp_path)
    host.make()
    host.another(OTHER, OTHERS)
    return host


async def flipped(host: EdgeHost, bond: str = BOND) -> None:
    await host.changes().stage(bond, AFTER, BEFORE, "")
    await host.changes().arm(bond, AFTER, SECONDS, "a")
    await host.changes().flip(bond, AFTER, 30)


def mode(host: EdgeHost, bond: str) -> str:
    return (host.root / f"sys/class/net/{bond}/bonding/mode").read_text().split()[0]


def deadmen(host: EdgeHost) -> list[subprocess.Popen[bytes]]:
    """Have the time of all dead-men come at once."""
    commands = [json.loads((host.world / "units" / one).read_text())[1] for one in host.timers()]
    return [subprocess.Popen(one, env=host.env()) for one in commands]


def turns(host: EdgeHost, since: int) -> Iterator[str]:
    """Yield what was called: names of bonds, and whether systemd-networkd was stopped or started."""
    whose = {**dict.fromkeys((BOND, *CARDS), BOND), **dict.fromkeys((OTHER, *OTHERS), OTHER)}
    for words in host.calls()[since:]:
        if words[0] == "ip":
            yield whose[words[4]]
        elif words[1] in ("stop", "start"):
            yield words[1]


async def test_two_bonds_are_put_back_one_after_the_other(host: EdgeHost) -> None:
    """Else the first one starts systemd-networkd while the second one is empty, and it takes its cards."""
    for bond in (BOND, OTHER):
        await flipped(host, bond)
    since = len(host.calls())
    for one in deadmen(host):
        assert one.wait(120) == 0
    assert (mode(host, BOND), mode(host, OTHER)) == (BEFORE, BEFORE)
    seen = [word for word in turns(host, since) if word != "stop"]
    first, second = (BOND, OTHER) if seen[0] == BOND else (OTHER, BOND)
    middle = seen.index(second)
    assert set(seen[:middle]) == {first, "start"}
    assert set(seen[middle:]) == {second, "start"}, "nobody else comes in between"
    assert set(NETWORKD) <= set(host.units())


async def test_who_is_not_first_waits_for_the_other(host: EdgeHost) -> None:
    await flipped(host)
    folder = os.open(host.root / STATE.lstrip("/") / "bonds", os.O_RDONLY)
    calls = len(host.calls())
    fcntl.flock(folder, fcntl.LOCK_EX)
    [waiting] = deadmen(host)
    fired = host.root / STATE.lstrip("/") / "bonds" / BOND / "fired"
    until = time.monotonic() + 60
    while not fired.exists() and time.monotonic() < until:
        os.sched_yield()
    assert (mode(host, BOND), len(host.calls())) == (AFTER, calls)
    os.close(folder)
    assert waiting.wait(120) == 0
    assert mode(host, BOND) == BEFORE


async def test_a_dead_man_acts_in_the_end_and_a_flip_does_not(host: EdgeHost) -> None:
    """As where somebody who has the lock hangs."""
    await flipped(host)
    scripts.write(host.bin / "flock", "exit 1")
    with pytest.raises(HostError, match="somebody else is changing a bond of this host"):
        await flipped(host, OTHER)
    assert mode(host, OTHER) == BEFORE
    for one in deadmen(host):
        assert one.wait(120) == 0
    assert mode(host, BOND) == BEFORE


async def test_networkd_ends_as_by_a_restart_so_that_leases_stay(host: EdgeHost) -> None:
    """By a plain stop it gives them back, and takes the addresses of all other cards away."""
    await flipped(host)
    host.fire()
    words = [" ".join(one[1:]) for one in host.calls("systemctl")]
    service = "systemd-networkd.service"
    ends = [place for place, one in enumerate(words) if one == f"stop {service}"]
    assert len(ends) == 2, "a flip, and the dead-man"
    for end in ends:
        assert words[end - 3 : end] == [
            "stop systemd-networkd.socket",
            f"kill --signal=SIGUSR2 {service}",
            f"is-active --quiet {service}",
        ]


@pytest.mark.parametrize("verb", ["stop", "start", "kill", "is-active"])
async def test_a_systemd_that_does_not_answer_is_not_waited_for(host: EdgeHost, verb: str) -> None:
    """`timeout` ends what asks it; a bond in pieces is put together whatever comes of it."""
    await flipped(host)
    (host.world / "hangs").write_text(verb)
    host.fire(whole=verb != "start")
    assert (mode(host, BOND), host.cards(), host.is_up()) == (BEFORE, sorted(CARDS), True)
    told = [one.phase for one in host.changes().observe()]
    assert told == ["RestoreFailed" if verb == "start" else "Fired"]
    (host.world / "hangs").unlink()
    await host.changes().revert(BOND)
    assert set(NETWORKD) <= set(host.units())


async def test_systemd_is_never_asked_without_a_limit(host: EdgeHost) -> None:
    await flipped(host)
    ours = len(host.calls("systemctl")) - len((host.world / "timed").read_text().splitlines())
    calls = [" ".join(one) for one in host.calls("systemctl") if "networkd" not in " ".join(one)]
    assert ours == len([*calls, "is networkd there, asked when it was staged"])


def test_shells_can_read_the_script() -> None:
    for shell in filter(shutil.which, ("dash", "bash", "busybox")):
        argv = [shell, "sh", "-n"] if shell == "busybox" else [shell, "-n"]
        assert subprocess.run(argv, input=SCRIPT, text=True, capture_output=True, check=False).stderr == ""


def test_shellcheck_has_nothing_to_say() -> None:
    if (shellcheck := shutil.which("shellcheck")) is None:
        pytest.skip("there is no shellcheck here")
    argv = [shellcheck, "-s", "sh", "-e", "SC2046,SC2086", "-"]
    assert subprocess.run(argv, input=SCRIPT, text=True, capture_output=True, check=False).stdout == ""
