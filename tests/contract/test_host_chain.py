"""What is done on a host, by its agent and by hand, is in its own chain, and the status has the end of it."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import yaml

from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import Record
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.fleet.audit import host_chains
from nodemanager.fleet.audit.host_chains import ChainVerdict, KnownChain
from support import cli
from support.agent_process import Agent, Api, Starts, owned
from support.folder_host import furnish
from support.node_tasks import Tasks, shell
from support.root_tree import needs_root

PATH = "/etc/motd"
CHAIN = "/var/lib/nodemanager/audit.chain"


async def here(agent: Agent, *args: str) -> cli.Ran:
    """Run a command on the host itself, without the API."""
    return await asyncio.to_thread(cli.run, *args, "--root", str(agent.root))


def lines(agent: Agent) -> list[bytes]:
    path: Path = agent.at(CHAIN)
    return path.read_bytes().splitlines() if path.exists() else []


def recorded(agent: Agent) -> list[Record]:
    return [records.decode(line) for line in lines(agent)]


async def test_what_the_agent_and_people_do_is_in_the_chain(api: Api, start: Starts) -> None:
    agent = start()
    await api.config_set(
        "motd", files=[owned(PATH, content="one\n"), owned("/etc/key", content="hush\n", mode="0600")]
    )
    await api.ready("motd")
    first = (await api.until(lambda one: one.status.audit_chain)).status.audit_chain
    assert first is not None
    applied = next(one for one in recorded(agent) if one.verb == "apply")
    assert (applied.object.kind, applied.object.name, applied.count) == ("ConfigSet", "motd", 2)
    assert applied.actor.name == "agent"
    assert {one.path: bool(one.after) for one in applied.files} == {PATH: True, "/etc/key": False}

    agent.at(PATH).write_text("drift\n")
    await agent.reads(PATH, "one\n")
    await api.until(lambda one: one.status.audit_chain and one.status.audit_chain.size > first.size)
    repaired = next(one for one in recorded(agent) if one.verb == "repair")
    assert (repaired.aspect, repaired.reason) == (f"file:{PATH}", "repaired")

    done = await here(agent, "restore", PATH, "--hold", "--for", "1h", "--reason", "looking")
    assert done.code == 0, done
    by_hand = {one.verb: one for one in recorded(agent) if one.verb in ("hold", "restore")}
    assert (by_hand["hold"].message, by_hand["restore"].aspect) == ("looking", PATH)
    assert all(one.actor.name != "agent" and one.actor.known == "host" for one in by_hand.values())
    await here(agent, "unhold")
    assert [one.verb for one in recorded(agent)].count("unhold") == 1

    def told(node: ManagedNode) -> bool:
        chain = node.status.audit_chain
        return chain is not None and chain.size == len(lines(agent))

    last = (await api.until(told)).status.audit_chain
    assert last is not None
    judged = host_chains.judge(KnownChain((first,)), last, lines(agent))
    assert judged.verdict == ChainVerdict.FINE, judged
    text = agent.at(CHAIN).read_text()
    assert not [word for word in ("hush", "drift\\n", "one\\n") if word in text], "no content"
    assert agent.at(CHAIN).stat().st_mode & 0o777 == 0o600
    await _tampering_is_named(agent, f"{last.size}:{last.head}")


async def _tampering_is_named(agent: Agent, anchor: str) -> None:
    agent.stop()
    whole = lines(agent)
    assert (await here(agent, "audit", "host", "verify", "--anchor", anchor)).code == 0
    shown = await here(agent, "audit", "host", "log")
    assert "restore" in shown.stdout
    assert "looking" in shown.stdout
    path = agent.at(CHAIN)
    for bent, said in (
        ([whole[0], whole[1].replace(b"agent", b"nobody"), *whole[2:]], "altered: record 1"),
        ([*whole[:2], *whole[3:]], "dropped: record 2"),
        ([whole[0], whole[2], whole[1], *whole[3:]], "reordered: records 1 to 2"),
    ):
        path.write_bytes(b"\n".join(bent) + b"\n")
        found = await here(agent, "audit", "host", "verify")
        assert (found.code, said in found.stdout) == (1, True), found
    path.write_bytes(b"\n".join(whole[:2]) + b"\n")
    assert (await here(agent, "audit", "host", "verify")).code == 0, "by itself it is whole"
    found = await here(agent, "audit", "host", "verify", "--anchor", anchor)
    assert (found.code, "truncated: records 2 to" in found.stdout) == (1, True), found


@needs_root
async def test_a_task_and_an_apply_by_hand_are_in_the_chain(api: Api, start: Starts, tmp_path: Path) -> None:
    agent = start()
    furnish(agent.root)
    await api.ready()
    tasks = Tasks(api)
    await tasks.make("t", shell("good", "echo hush"), shell("bad", "echo hush; exit 3"))
    await tasks.ended("t", "Failed")
    await agent.sees(lambda: any(one.aspect == "task" and one.verb == "end" for one in recorded(agent)))
    done = [one for one in recorded(agent) if one.object.kind == "NodeTask"]
    assert [(one.verb, one.aspect, one.to) for one in done] == [
        ("begin", "task", ""),
        ("end", "step/good", "Succeeded"),
        ("end", "step/bad", "Failed"),
        ("end", "task", "Failed"),
    ]
    steps = [one.step for one in done if one.step is not None]
    assert [(one.exit_code, one.attempts) for one in steps] == [(0, 1), (3, 1)]
    argv = b'["/bin/sh","-c","echo hush"]'
    assert steps[0].argv_digest == hashlib.sha256(argv).hexdigest()

    agent.stop()
    spec = {"nodeSelector": {}, "files": [owned("/etc/by-hand", content="hush\n")]}
    made = {
        "apiVersion": "common.nodemanager/v1",
        "kind": "ConfigSet",
        "metadata": {"name": "a"},
        "spec": spec,
    }
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests/a.yaml").write_text(yaml.safe_dump(made))
    for _ in range(2):  # the second one changes nothing
        done_by_hand = await here(agent, "apply", "--manifest-dir", str(tmp_path / "manifests"))
        assert done_by_hand.code == 0, done_by_hand
    (one,) = [one for one in recorded(agent) if one.verb == "apply"]
    assert (one.object.name, [file.path for file in one.files]) == ("a", ["/etc/by-hand"])
    assert one.actor.name != "agent"
    assert (await here(agent, "audit", "host", "verify")).code == 0
    assert "hush" not in agent.at(CHAIN).read_text()
