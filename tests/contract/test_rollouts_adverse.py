"""Changes that fail, hang or turn bad, an operator that ends, and an API that goes away: who ever had them.

Each says how many hosts had the bad revision, and for how long, with `-o log_cli=true -o log_cli_level=INFO`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.rollout import PROGRESSING, SOAKING, STABLE, UNDONE, RolloutStatus
from nodemanager.client.patches import MergePatch
from nodemanager.controllers.rollouts import reconciling, waking
from nodemanager.kube import times
from support.either import Place
from support.rollout_site import RolloutSite, rollout_site_at

HOSTS = ("a", "b", "c", "d", "e", "f")
SOAK = "2s"
"""At least one, as moments are written to the second."""
log = logging.getLogger(__name__)


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(reconciling, "AGAIN_SECONDS", 0.01)


@pytest.fixture(name="site")
async def _site(place: Place) -> AsyncIterator[RolloutSite]:
    """Six hosts that have the first revision of a set."""
    async with rollout_site_at(place) as site:
        await site.join(*HOSTS)
        async with site.operator():
            await site.declare("web", "one", stages=["100%"], soak="0")
            await site.until("web", lambda status: status.phase == STABLE)
        yield site


async def configure(site: RolloutSite, **rollout: Any) -> None:
    given = {"stages": ["1", "50%"], "soak": "0", **rollout}
    await site.client.patch(CONFIG_SETS, "web", site.namespace, MergePatch({"spec": {"rollout": given}}))


async def returned(site: RolloutSite, status: RolloutStatus, bad: int = 2) -> int:
    """Check that all hosts have the first revision; tell, and return, how many ever had the bad one."""
    assert (status.stable and status.stable.revision, status.next) == (1, None)
    for host in HOSTS:
        (said,) = (await site.node(host)).status.configsets
        assert (said.revision, said.error, said.waiting) == (1, "", "")
    return exposed(site, bad)


def is_so_far(stage: int, status: RolloutStatus) -> bool:
    return status.stage >= stage or status.phase == STABLE


def exposed(site: RolloutSite, revision: int) -> int:
    """Tell, and return, how many hosts ever had a revision."""
    found = site.exposure(revision)
    log.info("the bad revision: %s", found)
    return len(found.hosts)


async def test_the_operator_ends_in_every_stage(site: RolloutSite) -> None:
    await configure(site)
    await site.declare("web", "two")
    for stage in (1, 2, 3):
        async with site.operator():
            await site.until("web", functools.partial(is_so_far, stage))
    async with site.operator():
        status = await site.until("web", lambda status: status.phase == STABLE)
    assert status.stable is not None
    assert (status.stable.revision, len(site.exposure(2).hosts)) == (2, len(HOSTS))
    site.broken = {3}
    await site.declare("web", "three")
    async with site.operator():
        await site.until("web", lambda status: status.refused is not None)
    async with site.operator():
        await site.until("web", lambda status: status.phase == UNDONE)
    assert exposed(site, 3) == 1


async def test_the_api_is_cut_while_a_change_turns_bad(site: RolloutSite) -> None:
    """Longer than the soak: what hosts said before it proves nothing."""
    assert site.link is not None
    await configure(site, soak=SOAK)
    async with site.operator():
        await site.declare("web", "two")
        status = await site.until("web", lambda status: status.phase == SOAKING)
        site.link.cut()
        site.broken = {2}
        since = times.parse(status.since)
        assert since is not None
        while datetime.now(UTC) - since < timedelta(seconds=3):  # noqa: ASYNC110 - it is time that passes
            await asyncio.sleep(0.1)
        site.link.mend()
        status = await site.until("web", lambda status: status.phase == UNDONE)
    assert await returned(site, status) == 1


async def test_half_the_hosts_are_silent(site: RolloutSite) -> None:
    await configure(site)
    await site.hush("a", "b", "c")
    site.broken = {2}
    async with site.operator():
        await site.declare("web", "two")
        status = await site.until("web", lambda status: status.phase == UNDONE)
        assert await returned(site, status) == 1
        await site.declare("web", "three")
        status = await site.until("web", lambda status: status.phase == STABLE)
        assert site.exposure(3).hosts == {"d", "e", "f"}
        await site.hush()
        await site.until("web", lambda _: len(site.exposure(3).hosts) == len(HOSTS))
    assert site.exposure(2).hosts <= {"d", "e", "f"}


async def test_two_changes_within_a_moment(site: RolloutSite) -> None:
    await configure(site)
    site.hung = {2}
    async with site.operator():
        await site.declare("web", "two")
        await site.until("web", lambda status: status.phase == PROGRESSING and site.exposure(2).hosts)
        await site.declare("web", "three")
        status = await site.until("web", lambda status: status.phase == STABLE)
    assert status.stable is not None
    assert (status.stable.revision, len(site.exposure(3).hosts)) == (3, len(HOSTS))
    assert exposed(site, 2) == 1


async def test_a_change_turns_bad_after_its_soak(site: RolloutSite) -> None:
    await configure(site, soak=SOAK)
    async with site.operator():
        await site.declare("web", "two")
        await site.until("web", lambda status: status.stage == 2)
        site.broken = {2}
        status = await site.until("web", lambda status: status.phase == UNDONE)
    assert await returned(site, status) == 3


async def test_a_change_hangs(site: RolloutSite) -> None:
    await configure(site, progressDeadline="1s")
    site.hung = {2}
    async with site.operator():
        await site.declare("web", "two")
        status = await site.until("web", lambda status: status.phase == UNDONE)
    assert "failed on" in status.message
    assert await returned(site, status) == 1
