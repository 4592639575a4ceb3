"""The dead-man of a bond as a transient timer of a real systemd, with no agent on the machine at all.

The machine has no bonding: its bond is a folder that looks like one which is as it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib import resources
from typing import Unpack

import pytest

from nodemanager.host import edge
from nodemanager.host.base import How
from nodemanager.host.edge import deadman
from nodemanager.host.edge.bond_plans import BondPlan
from nodemanager.host.edge.bond_records import SCRIPT
from nodemanager.host.process.runner import Completed
from support.fleet import until
from support.nspawn import Machine

PLAN = BondPlan("bondstor", "balance-rr", "active-backup", ("eth1", "eth2"))
ROOT = "/srv/host"
NETWORK = f"{ROOT}/etc/systemd/network"
SYSFS = {
    "flags": "0x1403",
    "bonding/mode": "active-backup 1",
    "bonding/slaves": "eth1 eth2",
    "bonding/primary": "",
}
OLD, NEW = "[Bond]\nMode=active-backup\n", "[Bond]\nMode=balance-rr\n"


def folder_of(machine: Machine, name: str) -> str:
    """Have a change on the machine as an agent leaves it that died after it put files in place."""
    folder = f"/var/lib/nodemanager/bonds/{name}"
    script = (resources.files(edge) / SCRIPT).read_text()
    machine.write(f"{folder}/{SCRIPT}", script, 0o700)
    machine.write(f"{folder}/before/10-{name}.netdev", OLD, 0o640)
    machine.write(f"{folder}/absent/20-{name}.network", "")
    machine.write(f"{folder}/armed", "{}")
    machine.write(f"{NETWORK}/10-{name}.netdev", NEW)
    machine.write(f"{NETWORK}/20-{name}.network", "[Network]\n")
    for path, text in SYSFS.items():
        machine.write(f"{ROOT}/sys/class/net/{PLAN.bond}/{path}", f"{text}\n")
    return folder


def arm(machine: Machine, folder: str, unit: str, seconds: int) -> None:
    machine.run(*deadman.start(unit, seconds, deadman.script(folder, "restore", PLAN, ROOT)))
    machine.run("systemctl", "is-active", "--quiet", f"{unit}.timer")


def has(machine: Machine, path: str) -> bool:
    return machine.run("test", "-e", path, check=False).returncode == 0


def test_it_puts_files_back_by_itself(machine: Machine) -> None:
    folder, unit = folder_of(machine, "alone"), deadman.unit_name("alone", "a")
    arm(machine, folder, unit, 1)
    until(lambda: has(machine, f"{folder}/restored"), "the dead-man to have acted")
    assert machine.read(f"{folder}/restored") == "0\n"
    assert machine.read(f"{NETWORK}/10-alone.netdev") == OLD
    assert machine.run("stat", "-c", "%a", f"{NETWORK}/10-alone.netdev").stdout == "640\n"
    assert not has(machine, f"{NETWORK}/20-alone.network")
    assert has(machine, f"{folder}/fired")
    until(
        lambda: machine.run("systemctl", "is-active", f"{unit}.timer", check=False).stdout == "inactive\n",
        "its unit to be gone",
    )


def test_what_was_committed_it_leaves_alone(machine: Machine) -> None:
    folder, unit = folder_of(machine, "kept"), deadman.unit_name("kept", "a")
    machine.run("mv", f"{folder}/armed", f"{folder}/committed")
    arm(machine, folder, unit, 1)
    until(
        lambda: machine.run("systemctl", "is-active", f"{unit}.timer", check=False).stdout == "inactive\n",
        "its time to be over",
    )
    until(lambda: not _runs(machine, unit), "it to have ended")
    assert machine.read(f"{NETWORK}/10-kept.netdev") == NEW
    assert not has(machine, f"{folder}/restored")


def test_one_that_is_disarmed_never_acts(machine: Machine) -> None:
    folder, unit = folder_of(machine, "disarmed"), deadman.unit_name("disarmed", "a")
    arm(machine, folder, unit, 3600)
    machine.run("systemctl", "stop", f"{unit}.timer")
    assert machine.run("systemctl", "is-active", f"{unit}.timer", check=False).returncode != 0
    assert machine.read(f"{NETWORK}/10-disarmed.netdev") == NEW
    assert has(machine, f"{folder}/armed")


def test_the_same_unit_is_not_started_twice(machine: Machine) -> None:
    folder, unit = folder_of(machine, "twice"), deadman.unit_name("twice", "a")
    arm(machine, folder, unit, 3600)
    with pytest.raises(Exception, match=r"already|exists|loaded"):
        machine.run(*deadman.start(unit, 3600, deadman.script(folder, "restore", PLAN, ROOT)))
    machine.run("systemctl", "stop", f"{unit}.timer")


def _runs(machine: Machine, unit: str) -> bool:
    said = machine.run("systemctl", "is-active", f"{unit}.service", check=False).stdout
    return said.strip() in ("active", "activating")


def test_all_of_one_bond_are_stopped_and_those_of_no_other(machine: Machine) -> None:
    folder = folder_of(machine, "all")
    units = [deadman.unit_name("all", one) for one in ("a", "b")]
    other = deadman.unit_name("all-x", "a")
    for unit in (*units, other):
        arm(machine, folder, unit, 3600)

    async def run(argv: Sequence[str], **_how: Unpack[How]) -> Completed:
        done = machine.run(*argv, check=False)
        return Completed(tuple(argv), done.returncode, b"", b"")

    for _ in range(2):  # none that is left is no failure
        asyncio.run(deadman.disarm_all(run, "all"))
    assert [asyncio.run(deadman.waits(run, unit)) for unit in (*units, other)] == [False, False, True]
    machine.run("systemctl", "stop", f"{other}.timer")
