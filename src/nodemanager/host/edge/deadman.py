"""The dead-man: a transient timer of systemd that puts a bond back. It needs neither the agent nor the API.

A reboot removes the timer. It also undoes an uncommitted change, because files are installed only on commit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from nodemanager.host.base import HostError, NotSupported, Runner
from nodemanager.host.edge.bond_plans import BondPlan
from nodemanager.host.edge.bond_records import SCRIPT
from nodemanager.host.process.runner import CommandNotFound

PREFIX: Final = "nodemanager-deadman"
_TIMEOUT: Final = 30.0
_BACK: Final = 300.0
"""Time to put a bond back, in seconds, including retries and waiting for another bond's restore."""
_DIGITS: Final = 8


def unit_name(bond: str, identity: str) -> str:
    """Return what the timer of one arming is called, and no other."""
    return f"{PREFIX}-{bond}-{hashlib.sha256(identity.encode()).hexdigest()[:_DIGITS]}"


def script(folder: str, verb: str, plan: BondPlan, root: str = "") -> list[str]:
    """Return how bond.sh is run: `flip` makes the bond what is wanted, any other verb what it was."""
    forwards = verb == "flip"
    mode, primary = (plan.mode, plan.primary) if forwards else (plan.before_mode, plan.before_primary)
    how = (plan.bond, mode, primary, plan.mac, root, *plan.slaves)
    return ["/bin/sh", f"{folder}/{SCRIPT}", verb, folder, *how]


async def put_back(run: Runner, folder: str, plan: BondPlan, root: str = "") -> None:
    """Do what the dead-man would, without taking the change from it; raises RunError."""
    (await run(script(folder, "revert", plan, root), timeout=_BACK, finish=True)).check()


def start(unit: str, seconds: int, command: Sequence[str]) -> list[str]:
    """Return how the timer is started."""
    return [
        "systemd-run", "--quiet", "--collect", f"--unit={unit}", f"--on-active={seconds}",
        "--timer-property=AccuracySec=1s", "--description=puts a bond back unless its change is committed",
        *command,
    ]  # fmt: skip


async def arm(run: Runner, unit: str, seconds: int, command: Sequence[str]) -> None:
    """Start the timer, which acts so many seconds from now."""
    try:
        (await run(start(unit, seconds, command), timeout=_TIMEOUT)).check()
    except CommandNotFound as error:
        raise NotSupported(f"cannot arm {unit}: this host has no systemd ({error})") from error
    if not await waits(run, unit):
        raise HostError(f"cannot arm {unit}: systemd has started it, and it does not wait")


async def waits(run: Runner, unit: str) -> bool:
    """Tell whether the timer waits."""
    try:
        argv = ["systemctl", "is-active", "--quiet", f"{unit}.timer"]
        return (await run(argv, timeout=_TIMEOUT)).returncode == 0
    except CommandNotFound:
        return False


async def disarm(run: Runner, unit: str) -> None:
    """Stop the timer; one that is gone is stopped."""
    await run(["systemctl", "stop", f"{unit}.timer"], timeout=_TIMEOUT)


async def disarm_all(run: Runner, bond: str) -> None:
    """Stop all timers of a bond, also unrecorded ones, whose process was killed after it started them."""
    await disarm(run, f"{PREFIX}-{bond}-{'?' * _DIGITS}")
