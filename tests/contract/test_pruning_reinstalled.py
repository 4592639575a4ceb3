"""An agent is installed anew, with its state folder or without, and a set is deleted: what it takes back."""

from __future__ import annotations

import contextlib
import shutil

import pytest

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.host.state import journal
from support.agent_process import Agent, Api, Starts, owned
from support.root_tree import needs_root

pytestmark = needs_root
STATE = journal.STATE.lstrip("/")
AT_ONCE = ("--configset.prune-grace", "0s", "--configset.prune-confirm", "0s")


def etc(agent: Agent) -> dict[str, str]:
    """Return what is on the host, also while its agent takes something away."""
    found = {}
    for path in (agent.root / "etc").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found[path.name] = path.read_text()
    return found


async def declare(api: Api, name: str) -> None:
    files = [owned(f"/etc/{name}", content="ours")]
    files += [owned("/etc/theirs", content="ours")] if name == "web" else []
    await api.config_set(name, prune=True, files=files)


async def converged(api: Api, start: Starts) -> Agent:
    """Have a host with two sets, one of which replaced a file that was there before."""
    agent = start(flags=AT_ONCE)
    (agent.root / "etc/theirs").write_text("theirs")
    for name in ("keep", "web"):
        await declare(api, name)
    await api.ready("keep", "web")
    assert etc(agent) == {"keep": "ours", "theirs": "ours", "web": "ours"}
    return agent


def installed_anew(agent: Agent, *, state: bool) -> None:
    """Replace all that belongs to the agent, and maybe also what it knew."""
    assert agent.stop() == 0
    kept = agent.root.parent / "kept"
    shutil.move(agent.root / STATE, kept)
    for folder in ("var", "run"):
        shutil.rmtree(agent.root / folder, ignore_errors=True)
    if state:
        (agent.root / STATE).parent.mkdir(parents=True)
        shutil.move(kept, agent.root / STATE)


async def test_with_its_state_it_takes_back_a_set_that_was_deleted_while_it_was_off(
    api: Api, start: Starts
) -> None:
    agent = await converged(api, start)
    installed_anew(agent, state=True)
    await api.client.delete(CONFIG_SETS, "web", api.namespace)
    agent.start()
    await agent.sees(lambda: etc(agent) == {"keep": "ours", "theirs": "theirs"})
    await api.until(lambda node: [one.name for one in node.status.configsets] == ["keep"])
    assert (await api.node()).status.orphans is None


@pytest.mark.parametrize("when", ["off", "back"])
async def test_without_its_state_it_takes_back_nothing(api: Api, start: Starts, when: str) -> None:
    """It is new on this host: what it finds is what was there before, whose-ever it was."""
    agent = await converged(api, start)
    installed_anew(agent, state=False)
    if when == "off":
        await api.client.delete(CONFIG_SETS, "web", api.namespace)
    agent.start()
    await agent.sees((agent.root / STATE).exists)
    if when == "back":
        await api.respec("keep", files=[owned("/etc/keep", content="newer")])
        await agent.reads("/etc/keep", "newer")
        await api.client.delete(CONFIG_SETS, "web", api.namespace)
    await api.until(lambda node: [one.name for one in node.status.configsets] == ["keep"])
    await api.respec("keep", files=[owned("/etc/keep", content="newest")])  # and a pass after that
    await agent.reads("/etc/keep", "newest")
    await api.ready("keep")
    assert etc(agent) == {"keep": "newest", "theirs": "ours", "web": "ours"}
    assert (await api.node()).status.orphans is None


async def test_what_it_brings_about_after_that_is_its_own_again(api: Api, start: Starts) -> None:
    agent = await converged(api, start)
    installed_anew(agent, state=False)
    agent.start()
    await api.config_set("new", prune=True, files=[owned("/etc/new", content="ours")])
    await agent.reads("/etc/new", "ours")
    await api.ready("keep", "new", "web")
    await api.client.delete(CONFIG_SETS, "new", api.namespace)
    await agent.sees(lambda: etc(agent) == {"keep": "ours", "theirs": "ours", "web": "ours"})
