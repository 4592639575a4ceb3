"""The upgrade of the whole system as a step of a task: what is no package, too, at most once."""

from __future__ import annotations

import contextlib

import pytest

from nodemanager.agent.tasks.attempts import REBOOT_NEEDED, Attempt
from nodemanager.agent.tasks.packages import Packages
from nodemanager.agent.tasks.reboots import Reboots
from nodemanager.agent.tasks.system_upgrades import WENT_DOWN, SystemUpgrades
from nodemanager.api.maintenance.task_steps import SYSTEM, PackagesAction, RebootAction
from nodemanager.host.inventory.boot import Boot
from nodemanager.plan.tasks.record import StepRecord
from support.fake_tools import MemoryPackages

ATTEMPT = Attempt("t/upgrade/1", 600, StepRecord(boot_id="b1"))


class Host(Boot):
    """A host that is down as soon as it was asked to be."""

    boots = 1
    based = 0

    async def boot_id(self) -> str:
        return f"b{self.boots}"

    async def reboot(self) -> None:
        self.boots += 1

    async def needed(self) -> str:
        return ""

    async def base(self) -> bool:
        self.based += 1
        return True


def performer(host: Host, manager: MemoryPackages, *, base: bool = True) -> SystemUpgrades:
    packages = Packages(manager, tuple, contextlib.nullcontext)
    return SystemUpgrades(packages, host.needed, host.base if base else None)


@pytest.mark.parametrize(("upgrade", "based"), [(SYSTEM, 1), ("all", 0)])
async def test_what_is_no_package_is_part_of_the_system_only(upgrade: str, based: int) -> None:
    host = Host()
    found = await performer(host, MemoryPackages({"app": "1"})).perform(
        PackagesAction(upgrade=upgrade), ATTEMPT
    )
    assert found.succeeded
    assert host.based == based
    assert found.evidence.get(REBOOT_NEEDED, "") == ("the base system was upgraded" if based else "")


async def test_an_upgrade_of_the_system_that_was_cut_off_has_failed() -> None:
    host = Host()
    doing = performer(host, MemoryPackages({}))
    assert await doing.settle(PackagesAction(upgrade=SYSTEM), ATTEMPT) == WENT_DOWN
    assert host.based == 0
    assert (await doing.settle(PackagesAction(upgrade="all"), ATTEMPT)).succeeded


async def test_a_host_reboots_for_what_an_earlier_step_says() -> None:
    host = Host()
    reboots = Reboots(host, host.needed, contextlib.nullcontext)
    action = RebootAction(when="ifNeeded")
    assert (await reboots.perform(action, ATTEMPT)).evidence == {"reboot": "not needed"}
    said = Attempt("t/reboot/1", 600, StepRecord(boot_id="b1"), reboot="the base system was upgraded")
    found = await reboots.perform(action, said)
    assert (found.changed, host.boots) == (True, 2)
