"""Tasks for an agent whose host is a folder: done once, reported, and refused where they must be."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.nodetask import COMPLETE, NODE_TASKS, NodeTask
from nodemanager.cli import status_client
from nodemanager.client.calls import Selection
from nodemanager.client.watch import WatchEvent
from nodemanager.kube import conditions, core
from nodemanager.plan.tasks import admission
from support.agent_process import Agent, Api, Starts, owned
from support.apiserver import free_port
from support.folder_host import furnish
from support.node_tasks import Tasks, moment, phases, shell
from support.root_tree import needs_root

pytestmark = needs_root


@pytest.fixture(name="tasks")
def _tasks(api: Api) -> Tasks:
    return Tasks(api)


@pytest.fixture(name="agent")
async def _agent(api: Api, start: Starts) -> Agent:
    agent = start()
    await api.ready()
    furnish(agent.root)
    return agent


async def test_steps_are_done_in_order_and_reported(tasks: Tasks, agent: Agent) -> None:
    made = await tasks.make(
        "t", shell("one", "echo one >> /log; echo said"), shell("two", "echo two >> /log"),
        {"name": "motd", "file": owned("/etc/motd", ensure="file", content="hello\n")},
    )  # fmt: skip
    task = await tasks.ended("t", "Succeeded")
    assert agent.at("/log").read_text() == "one\ntwo\n"
    assert agent.at("/etc/motd").read_text() == "hello\n"
    assert phases(task) == ["Succeeded"] * 3
    one = task.status.steps[0]
    assert (one.exit_code, one.output, one.attempts) == (0, "said\n", 1)
    claim = task.status.claim
    assert claim is not None
    assert claim.fencing_token == made.spec.fencing_token
    assert conditions.is_true(task.status.conditions, COMPLETE)
    assert task.status.step == "motd"


async def test_a_failure_stops_and_an_undo_takes_back(tasks: Tasks, agent: Agent) -> None:
    agent.at("/etc/kept").write_text("before\n")
    await tasks.make("stops", shell("a", "exit 3"), shell("b", "echo b >> /log"))
    task = await tasks.ended("stops", "Failed")
    assert phases(task) == ["Failed", "Pending"]
    assert task.status.message == "step a failed: exit code 3"
    back = {"execution": {"argv": ["/bin/sh", "-c", "echo back >> /log"]}}
    await tasks.make(
        "undoes",
        {"name": "changed", "file": owned("/etc/kept", ensure="file", content="after\n")},
        {"name": "new", "file": owned("/etc/new", ensure="file", content="new\n")},
        shell("ran", "echo ran >> /log", undo=back),
        shell("fails", "exit 1", onFailure="undo"),
    )
    task = await tasks.ended("undoes", "Undone")
    assert phases(task) == ["Undone", "Undone", "Undone", "Failed"]
    assert agent.at("/etc/kept").read_text() == "before\n"
    assert not agent.at("/etc/new").exists()
    assert agent.at("/log").read_text() == "ran\nback\n"


async def test_a_visit_costs_few_writes(tasks: Tasks, agent: Agent) -> None:
    api = tasks.api
    page = await api.client.list(NODE_TASKS, Selection(api.namespace))
    watch = await api.client.watch(
        NODE_TASKS, Selection(api.namespace), resource_version=page.resource_version
    )
    await tasks.make("t", *(shell(f"s{at}", "echo x >> /log") for at in range(10)))
    seen: list[NodeTask] = []
    async with asyncio.timeout(50), watch:
        while not (seen and seen[-1].status.finished_at):
            seen += [one.object for one in await watch.batch() if isinstance(one, WatchEvent)]
    assert agent.at("/log").read_text() == "x\n" * 10
    assert seen[1].status.phase == "Running"
    assert seen[1].status.claim is not None
    assert len(seen) <= 2 + 10, "more writes than the claim and one for each step"


async def test_an_agent_that_is_killed_goes_on_and_reports(tasks: Tasks, agent: Agent) -> None:
    wait = "echo began >> /log; read -r line < /go-on; echo ended >> /log"
    await tasks.make("t", shell("long", wait), shell("next", "echo next >> /log"))
    await agent.sees(lambda: agent.at("/log").exists())
    agent.end()
    await asyncio.to_thread(agent.at("/go-on").write_text, "now\n")
    await agent.sees(lambda: agent.at("/log").read_text() == "began\nended\n")
    agent.start()
    task = await tasks.ended("t", "Succeeded")
    assert agent.at("/log").read_text() == "began\nended\nnext\n"
    assert [step.attempts for step in task.status.steps] == [1, 1]


async def test_a_pass_happens_while_a_program_runs(tasks: Tasks, agent: Agent, api: Api) -> None:
    await tasks.make("t", shell("long", "echo began >> /log; read -r line < /go-on"))
    await agent.sees(lambda: agent.at("/log").exists())
    await api.config_set("motd", files=[owned("/etc/motd", content="hi\n")])
    await agent.reads("/etc/motd", "hi\n")
    await asyncio.to_thread(agent.at("/go-on").write_text, "now\n")
    await tasks.ended("t", "Succeeded")


async def test_what_somebody_else_writes_meanwhile_is_no_obstacle(tasks: Tasks, agent: Agent) -> None:
    await tasks.make(
        "t", shell("long", "echo began >> /log; read -r line < /go-on"), shell("b", "echo b >> /log")
    )
    await agent.sees(lambda: agent.at("/log").exists())
    await tasks.write_status("t", {"message": "somebody else"})
    await asyncio.to_thread(agent.at("/go-on").write_text, "now\n")
    task = await tasks.ended("t", "Succeeded")
    assert task.status.message == ""
    assert agent.at("/log").read_text() == "began\nb\n"


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "expired": ({"deadline": "2020-01-01T00:00:00Z"}, "Expired", admission.EXPIRED),
    "of another boot": ({"bootID": "another"}, "Refused", admission.OTHER_BOOT),
    "replayed": ({"fencingToken": 1}, "Refused", admission.STALE),
    "foreign": ({"nodeName": "web2"}, "", admission.FOREIGN),
}


async def test_what_is_refused_says_so_and_is_counted_once(api: Api, start: Starts) -> None:
    """In the status of the task, unless that is another host's; in a metric; in an Event of the host."""
    metrics, tasks = f"127.0.0.1:{free_port()}", Tasks(api)
    agent = start(metrics=metrics)
    await api.ready()
    furnish(agent.root)
    await tasks.make("first", shell("a", "echo first >> /log"))
    await tasks.ended("first", "Succeeded")
    for number, (spec, phase, reason) in enumerate(REFUSED.values()):
        made = await tasks.make(f"t{number}", shell("a", "echo refused >> /log"), **spec)
        await agent.logs(f"task t{number} is not done: {reason}: ")
        if phase:
            complete = conditions.get((await tasks.ended(f"t{number}", phase)).status.conditions, COMPLETE)
            assert complete is not None
            assert (complete.status, complete.reason) == ("False", reason)
        else:
            assert (await tasks.get(made.metadata.name)).status.phase == ""
    await tasks.make("after", shell("a", "echo after >> /log"))
    await tasks.ended("after", "Succeeded")
    assert agent.at("/log").read_text() == "first\nafter\n"
    _, counted = await agent.get(metrics, "/metrics")
    for _, _, reason in REFUSED.values():
        line = f'nodemanager_tasks_refused_total{{node="web1",reason="{reason}"}} 1'
        assert line in counted.splitlines(), line
    told: list[str] = []
    async with asyncio.timeout(90):
        while len(told) < len(REFUSED):
            page = await api.client.list(core.EVENTS, Selection(api.namespace))
            told = [one.message for one in page.items if one.reason == "TaskRefused"]
            await asyncio.sleep(0.05)
    assert sorted(said.partition(":")[0] for said in told) == [f"NodeTask t{n}" for n in range(len(REFUSED))]


async def test_a_replayed_task_is_refused_and_a_forgotten_report_is_repeated(
    tasks: Tasks, agent: Agent
) -> None:
    await tasks.make("t", shell("a", "echo a >> /log"))
    first = await tasks.ended("t", "Succeeded")
    await tasks.write_status("t", None)  # an API that was restored from a copy
    again = await tasks.ended("t", "Succeeded")
    assert again.status.steps == first.status.steps
    await tasks.delete("t")
    await tasks.make("t", shell("a", "echo a >> /log"), fencingToken=first.spec.fencing_token)
    task = await tasks.ended("t", "Refused")
    complete = conditions.get(task.status.conditions, COMPLETE)
    assert complete is not None
    assert complete.reason == admission.STALE
    assert agent.at("/log").read_text() == "a\n"


async def test_nothing_begins_on_a_host_that_is_held(tasks: Tasks, agent: Agent, api: Api) -> None:
    await api.patch_node({"spec": {"hold": {"reason": "a demo", "until": moment(hours=1)}}})
    await agent.logs("this host is held")
    await tasks.make("t", shell("a", "echo a >> /log"))
    task = await tasks.until("t", lambda one: one.status.phase == "Pending")
    assert task.status.message.startswith("it waits, for this host is held: a demo")
    assert not agent.at("/log").exists()
    await api.patch_node({"spec": {"hold": None}})
    await tasks.ended("t", "Succeeded")


async def test_a_hold_pauses_a_task_between_two_steps(
    tasks: Tasks, start: Starts, api: Api, tmp_path: Path
) -> None:
    (tmp_path / "hosts/web1/run").mkdir(parents=True)  # where an agent answers `nodemanager status`
    agent = start()
    await api.ready()
    furnish(agent.root)
    os.mkfifo(agent.at("/go"))
    await tasks.make(
        "t", shell("a", "echo a >> /log; read go < /go"), shell("b", "echo b >> /log"),
        reason={"kind": "NodeMaintenance", "name": "monday"},
    )  # fmt: skip
    await agent.logs("task t: step a begins")
    await api.patch_node({"spec": {"hold": {"reason": "a demo", "until": moment(hours=1)}}})
    await agent.logs("this host is held")
    await asyncio.to_thread(agent.at("/go").write_text, "on\n")  # the step that was begun ends
    task = await tasks.until("t", lambda one: one.status.message)
    assert task.status.message.startswith("paused before step b: this host is held: a demo")
    assert (task.status.phase, phases(task)) == ("Running", ["Succeeded", "Pending"])
    complete = conditions.get(task.status.conditions, COMPLETE)
    assert complete is not None
    assert complete.reason == "Held"
    status = await asyncio.to_thread(status_client.ask, str(agent.root))
    assert status.tasks.running is not None
    assert (status.tasks.running.owner, status.tasks.running.place) == ("nodemaintenance/monday", 1)
    assert agent.at("/log").read_text() == "a\n"
    await api.patch_node({"spec": {"hold": None}})
    task = await tasks.ended("t", "Succeeded")
    assert (task.status.message, agent.at("/log").read_text()) == ("", "a\nb\n")
    status = await asyncio.to_thread(status_client.ask, str(agent.root))
    assert [(one.name, one.phase, one.place) for one in status.tasks.recent] == [("t", "Succeeded", 2)]


async def test_what_may_begin_later_begins_later(tasks: Tasks, agent: Agent) -> None:
    await tasks.make("later", shell("a", "echo later >> /log"), notBefore=moment(seconds=3))
    await tasks.make("now", shell("a", "echo now >> /log"), fencingToken=1_000)
    await tasks.ended("now", "Succeeded")
    assert agent.at("/log").read_text() == "now\n"
    task = await tasks.ended("later", "Refused")  # its token is older than one that was done
    assert task.status.message == "its fencing token 1 is not above 1000, which was seen before"
    tasks.token = 2_000
    await tasks.make("soon", shell("a", "echo soon >> /log"), notBefore=moment(seconds=2))
    await tasks.ended("soon", "Succeeded")


async def test_a_deleted_task_begins_no_more_steps(tasks: Tasks, agent: Agent) -> None:
    await tasks.make(
        "t", shell("long", "echo began >> /log; read -r line < /go-on"), shell("b", "echo b >> /log")
    )
    await agent.sees(lambda: agent.at("/log").exists())
    await tasks.delete("t")
    await agent.logs("task t was deleted")
    await asyncio.to_thread(agent.at("/go-on").write_text, "now\n")
    await agent.logs("task t: Failed: the task was deleted before step b")
    assert agent.at("/log").read_text() == "began\n"


async def test_secrets_are_given_and_shown_to_nobody(tasks: Tasks, agent: Agent, api: Api) -> None:
    await api.secret("pin", code="swordfish")
    step = shell("a", "echo got $PIN; echo $PIN > /pin")
    step["execution"]["secretEnv"] = [{"name": "PIN", "secret": "pin", "key": "code"}]
    await tasks.make("t", step)
    task = await tasks.ended("t", "Succeeded")
    assert task.status.steps[0].output == "got ********\n"
    assert agent.at("/pin").read_text() == "swordfish\n"
    step["execution"]["secretEnv"][0]["secret"] = "missing"
    await tasks.make("lacks", step)
    task = await tasks.ended("lacks", "Failed")
    assert "cannot set PIN: Secret missing does not exist" in task.status.steps[0].message


async def test_it_is_told_in_events(tasks: Tasks, agent: Agent, api: Api) -> None:
    await tasks.make("t", shell("a", "exit 1"))
    await tasks.ended("t", "Failed")
    node = await api.node()
    wanted = {(MANAGED_NODES.kind, node.metadata.uid, reason) for reason in ("TaskStarted", "TaskFailed")}
    async with asyncio.timeout(90):
        while True:
            page = await api.client.list(core.EVENTS, Selection(api.namespace))
            told = {(one.involved_object.kind, one.involved_object.uid, one.reason) for one in page.items}
            if told >= wanted:
                break
            await asyncio.sleep(0.05)
    assert agent.log.read_text().count("task t begins") == 1


async def test_a_probe_and_a_preview(tasks: Tasks, agent: Agent, api: Api) -> None:
    await api.config_set("motd", files=[owned("/etc/motd", content="hi\n")])
    await agent.reads("/etc/motd", "hi\n")
    await tasks.make(
        "t",
        {"name": "holds", "probe": {"configSetsHold": True}},
        {"name": "plan", "preview": {"configSets": True}},
        {"name": "fails", "probe": {"argv": ["/bin/sh", "-c", "exit 4"]}, "timeout": "1s"},
    )
    task = await tasks.ended("t", "Failed")
    assert phases(task) == ["Succeeded", "Succeeded", "Failed"]
    assert task.status.steps[1].output == "0 resources would be changed\n"
    assert task.status.steps[2].message.startswith("not within 1 s: exit code 4")


async def test_two_agents_of_one_name_do_it_once(tasks: Tasks, agent: Agent, start: Starts, api: Api) -> None:
    other = Agent(agent.root.parent / "clone", api.namespace, agent.kubeconfig)
    shutil.copytree(agent.root, other.root, ignore=shutil.ignore_patterns("go-on", "*.sock"))
    other.start()
    try:
        await tasks.make("t", shell("a", "echo a >> /log"))
        await tasks.ended("t", "Succeeded")
        logs = [one.at("/log") for one in (agent, other)]
        assert [path.read_text() for path in logs if path.exists()] == ["a\n"]
    finally:
        other.end()


async def test_a_second_process_on_one_host_leaves_tasks_to_the_first(tasks: Tasks, agent: Agent) -> None:
    await tasks.make("first", shell("a", "echo first >> /log"))
    await tasks.ended("first", "Succeeded")  # so the state is its own
    other = Agent(agent.root, agent.namespace, agent.kubeconfig)
    other.start()
    try:
        await agent.logs("no task is done by this agent: cannot change this host: another nodemanager")
        await tasks.make("second", shell("a", "echo second >> /log"))
        await tasks.ended("second", "Succeeded")
        assert agent.at("/log").read_text() == "first\nsecond\n"
    finally:
        other.end()
