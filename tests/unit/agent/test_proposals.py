"""What a host would do because of a proposal, and of nothing else; none of it is done."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from nodemanager.agent.declared.desired_state import DesiredState
from nodemanager.agent.tasks.proposals import Proposals, Wanted
from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec
from nodemanager.api.maintenance.task_previews import TaskPreview
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan import merge
from nodemanager.plan.desired import Failure
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


async def ask(host: Host, proposed: ConfigSet, now: ConfigSet, **failed: Failure) -> TaskPreview:
    then, today = merge.merge([proposed]), merge.merge([now])
    unused = cast("Any", None)
    proposals = Proposals(host.converger, unused, unused, alone, nothing)
    state = DesiredState(today, {**literal_contents(today), **failed}, {})
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


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A directory that everybody gets into, as nobody does into those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


async def test_what_cannot_be_made_now_may_be_made_of_a_secret(tmp_path: Path, open_folder: Path) -> None:
    """A layer of data is missing, and the file from before is still there."""
    host, config = Host(tmp_path), str(open_folder / "app.conf")
    await host.converge(config_set(files=[owned(config, content="password geheim\n", mode="0644")]))
    now = config_set(files=[owned(config, template="{{ .Data.password }}", mode="0644")])
    proposed = config_set(files=[owned(config, content="password none\n", mode="0644")])
    failed = {config: Failure("cannot render it: ConfigMap web is no YAML")}
    said = await ask(host, proposed, now, **failed)
    assert [one.verb for one in said.changes] == ["write"]
    assert "what is there is not shown" in said.changes[0].details
    assert "geheim" not in str(said)
