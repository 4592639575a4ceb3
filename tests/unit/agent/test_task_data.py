"""Data of the host in files of tasks: as in those of ConfigSets."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodemanager.agent.tasks.references import TaskReferences
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.declarations import File
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeSpec
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.plan.desired import Content, Contents, Desired, Failure, Item
from nodemanager.plan.resources import FILE, file_id
from support.rendering import Inline
from support.root_tree import config_set

KEY = ObjectKey("default", "web1")
NODE = ManagedNode(metadata=ObjectMeta(name="web1"), spec=ManagedNodeSpec(data={"own": 1}))
STORED: dict[str, dict[str, Any]] = {"ConfigMap m": {"name": "shop"}, "Secret s": {"password": b"geheim"}}


class Known:
    """An API that has a few objects, and a host with one set."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.asked: list[str] = []

    async def get(self, resource: Any, name: str, _namespace: str) -> Any:
        self.asked.append(f"{resource.kind} {name}")
        if name not in self.names:
            raise errors.NotFound(f"there is no {name}")
        return SimpleNamespace(values=STORED[f"{resource.kind} {name}"])

    async def sets(self) -> Sequence[ConfigSet]:
        refs = [{"configMapRef": {"name": "m"}}, {"secretRef": {"name": "s"}}]
        data = {"app": {"port": 8080}}
        lax = {"missingKeys": "empty"}
        return [config_set("task", nodeSelector={}, data=data, dataFrom=refs, templating=lax)]

    async def contents(self, template: str) -> Content | Failure:
        link = SimpleNamespace(client=self, key=KEY, nodes={KEY: NODE})
        sources = SimpleNamespace(reachability=SimpleNamespace(withheld=str))
        file = File(path="/x", template=template)
        desired = Desired({FILE: (Item(file_id("/x"), file, ("task",)),)})
        references = TaskReferences(cast("Any", link), cast("Any", sources), Inline(), self.sets)
        found: Contents = await references.contents(desired)
        return found["/x"]


@pytest.mark.parametrize(
    ("template", "text", "is_secret"),
    [
        ("{{ .Data.app.port | default 80 }} {{ .Data.own }} {{ .Data.name }}", "8080 1 shop", False),
        ("{{ .Data.password }}", "geheim", True),
    ],
)
async def test_a_file_of_a_task_sees_all_data_of_its_host(template: str, text: str, is_secret: bool) -> None:
    made = await Known("m", "s").contents(template)
    assert isinstance(made, Content), made
    assert (made.data.decode(), made.secret) == (text, is_secret)


async def test_what_is_missing_fails_it_whatever_a_set_says_of_its_own_files() -> None:
    made = await Known("m").contents("{{ .Data.app.port | default 80 }}")
    assert isinstance(made, Failure)
    assert "Secret s does not exist" in made.message
    made = await Known("m", "s").contents("{{ .Data.nothing }}")
    assert isinstance(made, Failure)


async def test_who_reads_no_data_asks_for_none() -> None:
    known = Known()
    assert isinstance(await known.contents("{{ .Node.Name }}"), Content)
    assert known.asked == []
