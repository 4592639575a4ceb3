"""The dead-man acts on a host on which little else works any more, and says where it could not."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from nodemanager.host.edge import bond_changes
from nodemanager.host.edge.bond_changes import OVERDUE
from support import scripts
from support.edge_host import AFTER, BEFORE, BOND, CARDS, NETDEV, NETWORKD, STATE, EdgeHost

SECONDS = 300
READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


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


def as_it_was(host: EdgeHost) -> bool:
    return (
        (host.mode(), host.cards(), host.is_up()) == (BEFORE, sorted(CARDS), True)
        and host.files()["10-bond.netdev"] == NETDEV
        and set(NETWORKD) <= set(host.units())
    )


async def test_a_disk_that_takes_no_rename(host: EdgeHost) -> None:
    await flipped(host)
    scripts.write(host.bin / "mv", "echo 'No space left on device' >&2; exit 1")
    host.fire()
    assert as_it_was(host)
    assert phases(host) == ["Armed"]
    host.uptime += SECONDS + OVERDUE + 1
    assert phases(host) == ["Restoring"], "it could not write down that it has acted"
    (host.bin / "mv").unlink()
    assert (await host.changes().revert(BOND))["modeAfter"] == BEFORE
    assert phases(host) == ["Reverted"]


@pytest.fixture(name="read_only")
def _read_only(host: EdgeHost) -> list[str]:
    """Return what runs a program to which the folder of the change is read-only."""
    if os.geteuid() != 0:
        return ["/bin/sh", "-c", 'chmod a-w "$0" && exec "$@"', str(folder(host))]
    tried = ["unshare", "--mount", "/bin/sh", "-c", READ_ONLY, str(host.world), "true"]
    if shutil.which("unshare") is None or subprocess.run(tried, check=False, capture_output=True).returncode:
        pytest.skip("cannot make a folder read-only: root may not mount here")
    return [*tried[:5], str(folder(host))]


async def test_a_disk_that_was_made_read_only(host: EdgeHost, read_only: list[str]) -> None:
    await flipped(host)
    host.fire(within=read_only)
    folder(host).chmod(0o700)
    assert as_it_was(host)
    assert not (folder(host) / "restored").exists()


async def test_a_flip_that_was_taken_by_somebody_else_is_left_alone(host: EdgeHost) -> None:
    await flipped(host)
    assert host.changes().record(BOND).take("committed")
    host.fire()
    assert (host.mode(), phases(host)) == (AFTER, ["Committed"])


async def test_a_bond_that_is_gone_was_not_put_back(host: EdgeHost) -> None:
    await flipped(host)
    bond = host.root / f"sys/class/net/{BOND}"
    bond.rename(host.world / "gone")
    host.fire(whole=False)
    assert phases(host) == ["RestoreFailed"]
    assert host.files()["10-bond.netdev"] == NETDEV, "its files are"
    assert set(NETWORKD) <= set(host.units())
    (host.world / "gone").rename(bond)
    await host.changes().revert(BOND)
    assert as_it_was(host)
    assert phases(host) == ["Fired"]
