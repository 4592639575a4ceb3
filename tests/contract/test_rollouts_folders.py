"""Changes of a ConfigSet on hosts that are folders, with an agent each: who ever had the bad one, how long.

By default five hosts and two stories. `NODEMANAGER_ROLLOUT_HOSTS=20` has all stories told, on so many hosts;
`-rP` shows a line for each: what the files of the hosts said, all the time.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from nodemanager.agent.report import heartbeat
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.rollout import SOAKING, STABLE, UNDONE, RolloutStatus
from nodemanager.client.patches import MergePatch
from support import either
from support.either import Place
from support.exposure import Exposure
from support.rollout_fleet import CANARY, RolloutFleet, rollout_fleet
from support.root_tree import needs_root

HOSTS = int(os.environ.get("NODEMANAGER_ROLLOUT_HOSTS", "5"))
EVERY = HOSTS >= 20
SOAK = 2.0
SOME = max(2, HOSTS // 4)
"""How many hosts have a change after the stage that follows that of the canary."""
IMPOSSIBLE = {"path": "/motd/below", "content": "a file has nothing below it"}
STAGED = {
    "strategy": "Staged", "canary": {"selector": {"matchLabels": {"canary": "true"}}},
    "stages": [str(SOME), "100%"], "soak": f"{SOAK:g}s",
}  # fmt: skip
HANGS = {"command": "/bin/sh", "args": ["-c", "read -r line < /go-on"], "creates": "/done", "timeout": "6s"}

pytestmark = [needs_root, pytest.mark.timeout(300)]
Story = Callable[[RolloutFleet], Awaitable[Exposure]]


@pytest.fixture(name="embedded")
def _embedded(own_server: Path, tmp_path: Path, caches: Path) -> Place:
    return either.prepared(own_server, tmp_path, caches / "embedded")


@pytest.fixture(name="fleet")
async def _fleet(
    embedded: Place, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RolloutFleet]:
    if request.node.callspec.params["story"] is silent:
        monkeypatch.setattr(heartbeat, "DURATION", 10)  # the shortest that the operator minds
        monkeypatch.setattr(heartbeat, "INTERVAL", 3.0)
    async with rollout_fleet(embedded, tmp_path, HOSTS) as fleet:
        await configure(fleet)
        yield fleet


async def configure(fleet: RolloutFleet, **rollout: Any) -> None:
    patch = MergePatch({"spec": {"rollout": {**STAGED, **rollout}}})
    await fleet.site.client.patch(CONFIG_SETS, "web", fleet.site.namespace, patch)


async def ends(fleet: RolloutFleet, phase: str, content: str) -> RolloutStatus:
    """Wait for the end of a rollout; all hosts have the same then."""
    status = await fleet.site.until("web", lambda status: status.phase == phase)
    await fleet.until(lambda: set(fleet.said().values()) == {content})
    return status


async def good(fleet: RolloutFleet) -> Exposure:
    """By stages, with a soak before each; the seconds are those from the first host to the last."""
    await fleet.change("two")
    await ends(fleet, STABLE, "two")
    moves = fleet.watch.moves
    # Who watches may be a moment late.
    await fleet.until(lambda: len(moves.who_had("two")) == len(fleet.roots))
    order = moves.who_had("two")
    begun = [moves.first(host, "two") for host in order]
    assert order[0] == CANARY
    gaps = [later - earlier for earlier, later in itertools.pairwise(begun)]
    waits = [number + 1 for number, gap in enumerate(gaps) if gap >= SOAK]
    assert waits == [1, SOME]  # who took it before the first soak, and before the second
    return fleet.exposure("two")._replace(seconds=begun[-1] - begun[0])


async def bad(fleet: RolloutFleet) -> Exposure:
    """It cannot be brought about, stops at the canary, and is undone there."""
    inodes = [(root / "motd").stat() for host, root in fleet.roots.items() if host != CANARY]
    await fleet.change("two", IMPOSSIBLE)
    status = await ends(fleet, UNDONE, "one")
    assert f"failed on {CANARY}" in status.message
    assert [(root / "motd").stat() for host, root in fleet.roots.items() if host != CANARY] == inodes
    found = fleet.exposure("two")
    assert found.hosts == {CANARY}
    return found


async def late(fleet: RolloutFleet) -> Exposure:
    """It holds for its soak on the canary, and turns bad there when some more hosts take it."""
    await fleet.change("two", {"path": "/data/app", "content": "x"})
    await fleet.site.until("web", lambda status: status.stage == 1)
    await fleet.until(lambda: len(fleet.watch.moves.who_had("two")) > 1)
    spoil(fleet)
    status = await ends(fleet, UNDONE, "one")
    assert f"failed on {CANARY}" in status.message
    found = fleet.exposure("two")
    assert CANARY in found.hosts
    assert len(found.hosts) <= SOME
    return found


def spoil(fleet: RolloutFleet) -> None:
    """Have what the change declares fail on the canary: a file takes the place of its directory."""
    data = fleet.roots[CANARY] / "data"
    data.rename(data.with_name("away"))
    data.touch()


async def hanging(fleet: RolloutFleet) -> Exposure:
    """It runs a program that does not end; the host returns when that is killed."""
    await configure(fleet, progressDeadline="2s")
    await fleet.change("two", executions=[HANGS])
    await fleet.site.until("web", lambda status: status.refused is not None)
    status = await ends(fleet, UNDONE, "one")
    assert f"failed on {CANARY}" in status.message
    found = fleet.exposure("two")
    assert found.hosts == {CANARY}
    return found


async def killed(fleet: RolloutFleet) -> Exposure:
    """The operator is killed in each stage of a good change, and of a bad one and its undo."""
    await fleet.change("two")
    for some in (1, SOME, HOSTS):
        await fleet.until(lambda some=some: len(fleet.watch.moves.who_had("two")) >= some)  # type: ignore[misc]
        fleet.kill()
        fleet.operate()
    await ends(fleet, STABLE, "two")
    await fleet.change("three", IMPOSSIBLE)
    await fleet.until(lambda: fleet.said()[CANARY] == "three")
    fleet.kill()
    fleet.operate()
    await fleet.site.until("web", lambda status: status.refused is not None)
    fleet.kill()
    fleet.operate()
    await ends(fleet, UNDONE, "two")
    found = fleet.exposure("three")
    assert found.hosts == {CANARY}
    return found


async def cut(fleet: RolloutFleet) -> Exposure:
    """The API is cut for longer than the soak of a change, which turns bad meanwhile."""
    await fleet.change("two", {"path": "/data/app", "content": "x"})
    await fleet.site.until("web", lambda status: status.phase == SOAKING)
    fleet.link.cut()
    spoil(fleet)
    at = time.monotonic() + 2 * SOAK
    while time.monotonic() < at:  # noqa: ASYNC110 - it is time that passes
        await asyncio.sleep(0.1)
    assert fleet.exposure("two").hosts == {CANARY}
    fleet.link.mend()
    await ends(fleet, UNDONE, "one")
    found = fleet.exposure("two")
    assert found.hosts == {CANARY}
    return found


async def silent(fleet: RolloutFleet) -> Exposure:
    """Half of the hosts are off: they neither hold it up nor ever have the bad one."""
    off = list(fleet.roots)[(HOSTS + 1) // 2 :]
    await fleet.silent(())
    await fleet.stop(*off)
    await fleet.silent(off)
    await fleet.change("two", IMPOSSIBLE)
    await ends(fleet, UNDONE, "one")
    await fleet.change("three")
    await fleet.site.until("web", lambda status: status.phase == STABLE)
    assert fleet.exposure("three").hosts == set(fleet.roots) - set(off)
    await fleet.start(*off)
    await ends(fleet, STABLE, "three")
    found = fleet.exposure("two")
    assert found.hosts == {CANARY}
    return found


async def twice(fleet: RolloutFleet) -> Exposure:
    """A second change comes while the first, bad one is on its way."""
    began = time.monotonic()
    await fleet.change("two", IMPOSSIBLE)
    await fleet.until(lambda: fleet.said()[CANARY] == "two")
    await fleet.change("three")
    assert time.monotonic() - began < 10
    await ends(fleet, STABLE, "three")
    found = fleet.exposure("two")
    assert found.hosts == {CANARY}
    return found


STORIES: tuple[Story, ...] = (good, bad, late, hanging, killed, cut, silent, twice) if EVERY else (bad, late)


@pytest.mark.parametrize("story", STORIES)
async def test_who_had_it(fleet: RolloutFleet, story: Story) -> None:
    found = await story(fleet)
    sys.stdout.write(f"| {story.__name__} | {len(found.hosts)} of {HOSTS} | {found.seconds:.1f} s |\n")
