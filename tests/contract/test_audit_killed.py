"""The operator is killed while it adds to the audit log, again and again: no fork, no gap, nothing twice.

`NODEMANAGER_AUDIT_KILLS` says how often; few by default.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from nodemanager.api.audit import record as records
from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS, NAME
from nodemanager.api.audit.auditsegment import AUDIT_SEGMENTS
from nodemanager.api.audit.record import Record
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.client.calls import Selection
from nodemanager.controllers import assembly
from nodemanager.fleet.audit import segments
from nodemanager.kube import errors, manifests
from support import cli, examples, operator_process
from support.accounts import as_operator
from support.agent_process import PATIENCE, Api
from support.either import Place

KILLS = int(os.environ.get("NODEMANAGER_AUDIT_KILLS", "3"))


async def recorded(api: Api) -> list[Record]:
    page = await api.client.list(AUDIT_SEGMENTS, Selection(api.namespace))
    specs = sorted((one.spec for one in page.items), key=lambda spec: spec.index)
    return [records.decode(line) for spec in specs for line in segments.lines_of(spec)]


async def signed(api: Api) -> int:
    try:
        return (await api.client.get(AUDIT_CHECKPOINTS, NAME, api.namespace)).spec.size
    except errors.NotFound:
        return 0


async def until(holds: Callable[[], Awaitable[bool]], why: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            while not await holds():  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(why) from None


@contextlib.asynccontextmanager
async def declaring(api: Api) -> AsyncIterator[list[str]]:
    """Have ConfigSets be created until the end of the block, so that there is always something to record."""
    made: list[str] = []
    enough = asyncio.Event()  # not cancelled: whether the last one was made would not be known

    async def work() -> None:
        for number in itertools.count():
            if enough.is_set():
                return
            body = {"metadata": {"name": f"set-{number}"}, "spec": {"files": []}}
            await api.client.create(CONFIG_SETS, body, api.namespace)
            made.append(f"set-{number}")
            await asyncio.sleep(0.03)

    worker = asyncio.create_task(work())
    try:
        yield made
    finally:
        enough.set()
        await worker


async def test_killed_while_it_appends_it_neither_forks_nor_skips_nor_repeats(
    place: Place, api: Api, tmp_path: Path
) -> None:
    seed = examples.seed()
    chance, told, log = random.Random(seed), as_operator(place), tmp_path / "operator.log"
    place.kubectl("apply", "-f", "-", stdin=manifests.dump(assembly.manifests(place.namespace)))
    alive: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        alive.append(operator_process.start(told, place.namespace, log))

    try:
        start()
        async with declaring(api) as made:
            for _ in range(KILLS):
                before = len(await recorded(api))

                async def grows(before: int = before) -> bool:
                    return len(await recorded(api)) > before

                await until(grows, f"nothing was recorded: {log.read_text()[-3000:]}")
                if chance.random() < 0.5:  # who takes over is there already, and two may write
                    start()
                # At once: records are there, and not signed yet. Later: anywhere, twice a second in a write.
                await asyncio.sleep(chance.choice((0.0, chance.random())))
                alive[0].kill()
                alive.pop(0).wait(PATIENCE)
                if not alive:
                    start()

        async def all_there() -> bool:
            found = [one.object.name for one in await recorded(api) if one.object.kind == "ConfigSet"]
            return set(made) <= set(found) and await signed(api) == len(await recorded(api))

        await until(all_there, f"not all is recorded (seed {seed}): {log.read_text()[-3000:]}")
    finally:
        for process in alive:
            process.kill()
            process.wait(PATIENCE)
    found = await recorded(api)
    assert [one.sequence for one in found] == list(range(len(found))), seed
    created = [one.object.name for one in found if one.aspect == "spec" and one.object.kind == "ConfigSet"]
    assert sorted(created) == sorted(made), seed
    where = ("--kubeconfig", str(place.kubeconfig), "-n", place.namespace)
    checked = await asyncio.to_thread(cli.run, "audit", "verify", *where)
    assert (checked.code, checked.stdout.startswith("intact")) == (0, True), (seed, checked)
