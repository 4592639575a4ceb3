"""Agents and definitions of different versions: fields and words that only one of them knows; and state."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.nodetask import COMPLETE, NODE_TASKS
from nodemanager.client.patches import JsonPatch
from nodemanager.host.state.vault import Vault
from nodemanager.kube import conditions
from nodemanager.kube.core import CRDS
from nodemanager.kube.objects import Resource
from support import either
from support.agent_process import Api, Starts, owned
from support.either import Place
from support.folder_host import furnish
from support.node_tasks import Tasks, shell
from support.root_tree import needs_root

pytestmark = [needs_root, pytest.mark.xdist_group("skew")]  # one server for all of them
STATE = "/var/lib/nodemanager"
NEW = {"type": "string"}


@pytest.fixture(scope="module", name="own")
def _own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A server of this file alone: what others rely on is changed here."""
    with either.own(tmp_path_factory.mktemp("skew")) as kubeconfig:
        yield kubeconfig


@pytest.fixture(name="place")
def _place(own: Path, tmp_path: Path, caches: Path) -> Place:
    return either.prepared(own, tmp_path, caches / "skew")


async def redefine(api: Api, resource: Resource[Any], change: Callable[[dict[str, Any]], None]) -> None:
    """Change the schema of a kind, as another version has it."""
    name = f"{resource.plural}.{resource.group}"
    found = await api.client.get(CRDS, name)
    schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    change(schema["properties"])
    patch = [{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema}]
    await api.client.patch(CRDS, name, "", JsonPatch(patch))


async def raw(api: Api, resource: Resource[Any], name: str) -> dict[str, Any]:
    """Return an object with all that the API keeps of it."""
    return await api.client.get(resource.untyped(), name, api.namespace)


def newer_sets(schema: dict[str, Any]) -> None:
    schema["spec"]["properties"]["mood"] = NEW
    schema["spec"]["properties"]["files"]["items"]["properties"]["flavour"] = NEW


def newer_nodes(schema: dict[str, Any]) -> None:
    schema["spec"]["properties"]["mood"] = NEW
    schema["status"]["properties"]["mood"] = NEW


def newer_tasks(schema: dict[str, Any]) -> None:
    step = schema["spec"]["properties"]["steps"]["items"]
    step["properties"]["kexec"] = {"type": "object", "properties": {"when": NEW}}
    step["properties"]["colour"] = NEW
    step.pop("x-kubernetes-validations", None)  # the other test may have done so
    step["properties"]["reboot"]["properties"]["when"]["enum"].append("gently")


async def test_an_agent_that_is_older_than_the_definitions(api: Api, start: Starts) -> None:
    await redefine(api, CONFIG_SETS, newer_sets)
    await redefine(api, MANAGED_NODES, newer_nodes)
    await redefine(api, NODE_TASKS, newer_tasks)
    await api.config_set("motd", mood="good", files=[owned("/etc/motd", content="1", flavour="sweet")])
    agent = start()
    await api.ready("motd")
    assert agent.at("/etc/motd").read_text() == "1"
    await api.patch_node({"spec": {"mood": "good"}})
    await api.respec("motd", files=[owned("/etc/motd", content="2", flavour="sour")])
    await agent.reads("/etc/motd", "2")
    await api.ready("motd")
    # What it does not know, it has not taken away from anybody.
    assert (await raw(api, MANAGED_NODES, "web1"))["spec"]["mood"] == "good"
    config_set = await raw(api, CONFIG_SETS, "motd")
    assert (config_set["spec"]["mood"], config_set["spec"]["files"][0]["flavour"]) == ("good", "sour")

    furnish(agent.root)
    tasks = Tasks(api)
    for name, step, why in (
        (
            "kind",
            {"name": "a", "kexec": {"when": "now"}},
            "step a is of a kind that this agent does not know",
        ),
        ("word", {"name": "a", "reboot": {"when": "gently"}}, "step a has 'gently' as reboot.when"),
    ):
        await tasks.make(name, shell("first", "echo never >> /log"), step)
        task = await tasks.ended(name, "Refused")
        complete = conditions.get(task.status.conditions, COMPLETE)
        assert complete is not None
        assert (complete.reason, complete.status) == ("Invalid", "False")
        assert why in complete.message
        assert complete.message.endswith("; upgrade it")
    await tasks.make("known", shell("first", "echo once >> /log", colour="red"))
    await tasks.ended("known", "Succeeded")
    assert agent.at("/log").read_text() == "once\n"


def older_nodes(schema: dict[str, Any]) -> None:
    del schema["status"]["properties"]["agentVersion"]
    del schema["status"]["properties"]["drift"]


def older_sets(schema: dict[str, Any]) -> None:
    del schema["spec"]["properties"]["drift"]
    for rules in (schema["spec"], schema["spec"]["properties"]["files"]["items"]):
        rules.pop("x-kubernetes-validations", None)


def older_tasks(schema: dict[str, Any]) -> None:
    step = schema["spec"]["properties"]["steps"]["items"]
    del step["properties"]["agentUpgrade"]
    step.pop("x-kubernetes-validations", None)  # the other test may have done so
    del schema["status"]["properties"]["steps"]["items"]["properties"]["evidence"]


async def test_an_agent_that_is_newer_than_the_definitions(api: Api, start: Starts) -> None:
    await redefine(api, CONFIG_SETS, older_sets)
    await redefine(api, MANAGED_NODES, older_nodes)
    await redefine(api, NODE_TASKS, older_tasks)
    await api.config_set("motd", files=[owned("/etc/motd", content="1")])
    agent = start()
    await api.ready("motd")
    agent.at("/etc/motd").write_text("by hand")
    await agent.reads("/etc/motd", "1")
    await api.respec("motd", files=[owned("/etc/motd", content="2")])
    await agent.reads("/etc/motd", "2")
    await api.ready("motd")
    status = (await raw(api, MANAGED_NODES, "web1"))["status"]
    assert "agentVersion" not in status
    assert "drift" not in status
    furnish(agent.root)
    tasks = Tasks(api)
    await tasks.make("known", shell("first", "echo once >> /log"))
    await tasks.ended("known", "Succeeded")
    assert agent.stop() == 0
    assert "Traceback" not in agent.log.read_text()


def from_the_future(value: Any) -> Any:
    """Return what a newer version may have written: the same, with more in every object."""
    if isinstance(value, dict):
        return {**{key: from_the_future(one) for key, one in value.items()}, "ofTheNextVersion": {"a": [1]}}
    return [from_the_future(one) for one in value] if isinstance(value, list) else value


async def test_an_agent_reads_the_state_that_a_newer_one_wrote(api: Api, start: Starts) -> None:
    """It may have come back after an upgrade that failed: it knows what it did, and does nothing twice."""
    await api.config_set("motd", prune=True, files=[owned("/etc/motd", content="1")])
    agent = start()
    await api.ready("motd")
    furnish(agent.root)
    tasks = Tasks(api)
    await tasks.make("known", shell("first", "echo once >> /log"))
    await tasks.ended("known", "Succeeded")
    assert agent.stop() == 0
    changed = [*_rewritten(agent.root)]
    assert len(changed) >= 3, changed
    agent.log.unlink()
    agent.start()
    await api.respec("motd", files=[owned("/etc/motd", content="2")])
    await agent.reads("/etc/motd", "2")
    await api.ready("motd")
    assert agent.at("/log").read_text() == "once\n"
    said = agent.log.read_text()
    assert "cannot read" not in said
    assert "damaged" not in said
    assert "Traceback" not in said


def _rewritten(root: Path) -> Iterator[str]:
    """Write all records of an agent as a newer one would, and yield their names."""
    vault, folder = Vault(str(root), STATE), root / STATE.lstrip("/")
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        name = path.name
        if path.suffix == ".json" and path.parent.name == "tasks":
            task = json.loads(path.read_text())
            task["record"] = from_the_future(task["record"])
            path.write_text(json.dumps(from_the_future(task)))
            yield name
        elif path.parent == folder and (data := _vaulted(vault, name)) is not None:
            vault.save(name, json.dumps({**json.loads(data), "ofTheNextVersion": {"a": [1]}}).encode())
            yield name
    vault.close()


def _vaulted(vault: Vault, name: str) -> bytes | None:
    """Return what the vault has under the name of a file; None if that is none of its files."""
    try:
        return vault.load(name)
    except (OSError, ValueError):
        return None
