"""What one process rendered the next one does not; whatever else may have changed is rendered."""

from __future__ import annotations

import asyncio
import contextlib
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nodemanager.agent.declared import rendered_memory
from nodemanager.agent.declared.contents import Contenter
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.declared.desired_state import DesiredStateCache
from nodemanager.agent.declared.rendered_memory import RenderedMemory
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.host.state.journal import STATE
from nodemanager.host.state.vault import Vault
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan.desired import Content, Failure
from support.rendering import Inline
from support.root_tree import config_set

NAME, ROLE, ODD = "{{ .Node.Name }}\n", "{{ .Node.Labels.role }}\n", '{{ "gGE=" | base64.Decode }}'
BAD, TOLD = "{{ .Node.Labels.nothing }}", "{{ .Node.Secrets.k | base64.Decode }}{{ .Node.Name }}"
SECRETS = {"key": {"k": b"swordfish"}}


class Host:
    """A host whose templates are rendered again and again, by processes that begin anew."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / f"{STATE}/{rendered_memory.NAME}".lstrip("/")

    async def process(self, *texts: str, role: str = "web", program: str = "one") -> tuple[list[str], Any]:
        """Make the contents of files of these templates; return what was rendered, and the contents."""
        memory = RenderedMemory(Vault(str(self.root)), program)
        renderer, node = Inline(), ManagedNode(metadata=ObjectMeta(name="web1", labels={"role": role}))
        files = [
            {"path": f"/{place}", "template": text, "secretRefs": ["key"] if text == TOLD else []}
            for place, text in enumerate(texts)
        ]
        sets = [config_set("a", files=files)]
        states = DesiredStateCache(Contenter(renderer, memory.cache))
        made = (await states.make(sets, DeclaredInputs(tuple(sets), secrets=SECRETS), node)).contents
        memory.keep()
        memory.close()
        return [text for asked in renderer.asked for text in asked if text in texts], _plain(made.values())


def _plain(made: Sequence[Content | Failure] | Any) -> list[str]:
    return [one.message if isinstance(one, Failure) else str(one.source) for one in made]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


async def test_what_one_process_rendered_the_next_one_does_not(host: Host) -> None:
    first = await host.process(NAME, ROLE, ODD)
    assert first == ([NAME, ROLE, ODD], ["web1\n", "web\n", "\udc80a"])
    assert await host.process(NAME, ROLE, ODD) == ([], first[1])
    assert stat.S_IMODE(host.file.stat().st_mode) == 0o600


async def test_with_other_data_or_by_another_program_it_is_rendered(host: Host) -> None:
    await host.process(NAME, ROLE)
    assert await host.process(NAME, ROLE, role="db") == ([NAME, ROLE], ["web1\n", "db\n"])
    assert await host.process(ROLE, role="db", program="two") == ([ROLE], ["db\n"])


async def test_nothing_is_kept_where_nobody_can_tell_the_program(host: Host) -> None:
    await host.process(NAME, program="")
    assert await host.process(NAME, program="") == ([NAME], ["web1\n"])
    assert not host.file.exists()


async def test_nothing_is_kept_of_what_a_secret_went_into_nor_of_what_failed(host: Host) -> None:
    await host.process(NAME, TOLD, BAD)
    assert b"swordfish" not in host.file.read_bytes()
    rendered, made = await host.process(NAME, TOLD, BAD)
    assert rendered == [TOLD, BAD]
    assert made[:2] == ["web1\n", "swordfishweb1"]


async def test_what_nobody_declares_any_more_is_forgotten(host: Host) -> None:
    await host.process(NAME, ROLE)
    await host.process(NAME)
    assert (await host.process(ROLE))[0] == [ROLE]
    await host.process(BAD)
    assert not host.file.exists()


async def test_a_damaged_file_is_no_more_than_one_that_is_not_there(host: Host) -> None:
    await host.process(NAME)
    whole = host.file.read_bytes()
    for damaged in (whole[:-1], whole[:-3] + b"abc", b""):
        host.file.write_bytes(damaged)
        assert await host.process(NAME) == ([NAME], ["web1\n"])


async def test_too_much_is_not_kept(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    await host.process(NAME)
    monkeypatch.setattr(rendered_memory, "MAX_BYTES", 10)
    await host.process(NAME, ROLE)
    assert not host.file.exists()


async def test_an_agent_keeps_it_when_it_ends(host: Host) -> None:
    memory = RenderedMemory(Vault(str(host.root)), "one")
    contenter = Contenter(Inline(), memory.cache)
    sets = [config_set("a", files=[{"path": "/x", "template": NAME}])]
    node = ManagedNode(metadata=ObjectMeta(name="web1", labels={"role": "web"}))
    task = asyncio.create_task(memory.run())
    await DesiredStateCache(contenter).make(sets, DeclaredInputs(tuple(sets)), node)
    await asyncio.sleep(0)
    assert not host.file.exists()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    memory.close()
    assert await host.process(NAME) == ([], ["web1\n"])
