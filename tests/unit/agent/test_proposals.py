"""What a host would do because of a proposal, and of nothing else; none of it is done."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import msgspec

from nodemanager.agent.declared.desired_state import DesiredState
from nodemanager.agent.tasks.proposals import Proposals, Wanted
from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec
from nodemanager.api.maintenance.task_previews import TaskPreview
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan import merge
from support.agent_process import owned
from support.memory_host import Host
from support.root_tree import literal_contents


@contextlib.asynccontextmanager
async def alone() -> AsyncIterator[None]:
    yield


async def nothing() -> None:
    return None


def config_set(**spec: Any) -> ConfigSet:
    return ConfigSet(metadata=ObjectMeta(name="web"), spec=msgspec.convert(spec, ConfigSetSpec))


async def ask(host: Host, proposed: ConfigSet, now: ConfigSet) -> TaskPreview:
    then, today = merge.merge([proposed]), merge.merge([now])
    unused = cast("Any", None)
    proposals = Proposals(host.converger, unused, unused, alone, nothing)
    state = DesiredState(today, literal_contents(today), {})
    return await proposals.compared(Wanted(then, literal_contents(then), {}), state)


async def test_a_service_would_be_restarted_and_no_program_runs(tmp_path: Path) -> None:
    host, config, ran = Host(tmp_path), str(tmp_path / "nginx.conf"), tmp_path / "ran"
    nginx = {"name": "nginx", "ensure": "running", "enable": True, "subscribe_files": [config]}
    missing = {"name": "no-such-package"}
    now = config_set(files=[owned(config, content="one\n")], services=[nginx], packages=[missing])
    await host.converge(now)
    calls = list(host.services.calls)
    asks = {"command": "/bin/touch", "args": [str(ran)]}
    proposed = config_set(
        files=[owned(config, content="two\n")], services=[nginx], packages=[missing],
        executions=[{"command": "/bin/touch", "args": [str(ran)], "onlyIf": asks}],
    )  # fmt: skip
    said = await ask(host, proposed, now)
    assert [(one.verb, one.blocked) for one in said.changes] == [
        ("write", False), ("restart", False), ("may run", False),
    ]  # fmt: skip
    assert (said.changed, said.blocked) == (3, 0), "what is to be done anyway is not told"
    left = (tmp_path / "nginx.conf").read_text()
    assert (left, ran.exists(), host.services.calls) == ("one\n", False, calls)
    same = await ask(host, now, now)
    assert (same.changed, same.blocked, same.changes) == (0, 0, [])
