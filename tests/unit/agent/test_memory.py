"""What a host remembers: the same inputs again, nothing written for nothing, Secrets behind a key."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import msgspec
import pytest

from nodemanager.agent.declared.contents import Contenter
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.declared.desired_state import DesiredStateCache
from nodemanager.agent.declared.memory import InputsMemory
from nodemanager.agent.report.backup_records import MAX_BYTES
from nodemanager.api.common.configset import ConfigSet, ConfigSetStatus
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.host.state import state_files
from nodemanager.host.state.state_key import cipher_of
from nodemanager.host.state.vault import Vault
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.plan.desired import Content
from support.rendering import Inline
from support.root_tree import config_set

KEY = ObjectKey("n", "web1")


def node(name: str = "web1", version: str = "1", release: str = "6.1") -> ManagedNode:
    meta = ObjectMeta(name=name, namespace="n", resource_version=version, labels={"role": "web"})
    return ManagedNode(metadata=meta, status=ManagedNodeStatus(release=release))


def sets(content: str = "hello") -> list[ConfigSet]:
    template = "{{ .Node.Name }} {{ index .Node.Secrets `password` }} {{ .Node.Status.Release }} " + content
    files = [
        {"path": "/etc/x", "template": template, "secretRefs": ["db"], "configMapRefs": ["texts"]},
        {"path": "/etc/plain", "content": content},
    ]
    return [config_set("base", files=files)]


def inputs(content: str = "hello") -> DeclaredInputs:
    return DeclaredInputs(
        tuple(sets(content)),
        (node(), node("db1")),
        {"db": {"password": b"\xff geheim"}},
        {"texts": {"motd": "hi", "logo": b"\xff"}, "bare": {}},
    )


def opened(folder: Path, key: Path | None = None) -> InputsMemory:
    cipher = cipher_of(str(key)) if key else None
    return InputsMemory(Vault("/", str(folder)), Vault("/", str(folder), cipher), KEY)


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Return what tells whether files were written: the time alone does not, as its clock is no fine one."""
    found = {path.name: path.stat() for path in folder.iterdir()}
    return {name: (one.st_ino, one.st_ctime_ns) for name, one in found.items()}


async def test_the_same_wish_is_made_from_memory(tmp_path: Path) -> None:
    live, there = DesiredStateCache(Contenter(Inline())), inputs()
    desired_state = await live.make(sets(), there, node())
    assert isinstance(desired_state.contents["/etc/x"], Content)
    kept, own = live.basis(there, node())
    opened(tmp_path).keep(sets(), kept, own, peers=live.reads_peers)
    memory = opened(tmp_path)
    assert memory.node == own
    again = memory.inputs()
    assert await DesiredStateCache(Contenter(Inline())).make(again.config_sets, again, own) == desired_state
    assert [one.metadata.name for one in again.nodes] == ["web1"]  # no template reads others
    assert opened(tmp_path / "nowhere").node is None


def test_nothing_is_written_unless_something_is_new(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.keep(sets(), inputs(), node(), peers=True)
    before = stamps(tmp_path)
    counted = msgspec.structs.replace(sets()[0], status=ConfigSetStatus(observed_generation=7))
    memory.keep([counted], inputs(), node(version="2"), peers=True)
    opened(tmp_path).keep(sets(), inputs(), node(version="3"), peers=True)
    assert stamps(tmp_path) == before
    memory.keep(sets("new"), inputs("new"), node(), peers=True)
    after = stamps(tmp_path)
    assert after["desired"] != before["desired"]
    assert after["secrets"] == before["secrets"]


def test_a_host_for_which_nothing_is_declared_writes_nothing(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.keep([], DeclaredInputs(), node(), peers=False)
    assert list(tmp_path.iterdir()) == []
    memory.keep(sets(), inputs(), node(), peers=False)
    memory.keep([], DeclaredInputs(), node(), peers=False)
    assert opened(tmp_path).inputs().config_sets == ()
    assert not (tmp_path / "secrets").exists()


def test_secrets_are_encrypted_and_the_rest_needs_no_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key, other = tmp_path / "key", tmp_path / "other"
    key.write_bytes(b"k" * 32)
    other.write_bytes(b"o" * 32)
    for path in (key, other):
        path.chmod(0o400)
    state = tmp_path / "state"
    opened(state, key).keep(sets(), inputs(), node(), peers=False)
    assert all(b"geheim" not in path.read_bytes() for path in state.iterdir())
    assert opened(state, key).inputs().secrets == {"db": {"password": b"\xff geheim"}}
    assert caplog.records == []
    for wrong in (other, None):
        found = opened(state, wrong)
        assert (found.inputs().secrets, len(found.inputs().config_sets)) == ({}, 1)
    assert "does not open it" in caplog.text
    assert "there is no key" in caplog.text
    assert opened(state, key).inputs().secrets  # the right key came back


def test_without_a_usable_key_no_secret_is_kept(tmp_path: Path) -> None:
    memory = InputsMemory(Vault("/", str(tmp_path)), None, KEY)
    memory.keep(sets(), inputs(), node(), peers=False)
    assert "secrets" not in stamps(tmp_path)


def test_secrets_are_forgotten_for_good(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.keep(sets(), inputs(), node(), peers=False)
    assert memory.forget_secrets()
    assert not memory.forget_secrets()
    assert memory.inputs().secrets == opened(tmp_path).inputs().secrets == {}
    memory.keep(sets(), inputs(), node(), peers=False)  # the API is there again
    assert opened(tmp_path).inputs().secrets


@pytest.mark.parametrize("damage", [b"", b"{", b"\x00" * 100])
def test_a_damaged_memory_is_set_aside_and_said_once(
    tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "nodemanager")
    opened(tmp_path).keep(sets(), inputs(), node(), peers=False)
    for name in ("desired", "held", "owed"):
        (tmp_path / name).write_bytes(damage)
    memory = opened(tmp_path)
    assert (memory.node, memory.inputs().config_sets, memory.owed) == (None, (), {})
    assert memory.load_held() == {}
    said = len(caplog.records)
    assert said == 3
    assert opened(tmp_path).load_held() == {}
    assert len(caplog.records) == said
    memory.keep(sets(), inputs(), node(), peers=False)
    assert opened(tmp_path).node == node()


def test_a_memory_of_another_host_is_not_used(tmp_path: Path) -> None:
    opened(tmp_path).keep(sets(), inputs(), node(), peers=False)
    vault = Vault("/", str(tmp_path))
    other = InputsMemory(vault, vault, ObjectKey("n", "web2"))
    assert (other.node, other.inputs().secrets) == (None, {})


def test_the_first_backup_of_a_file_is_owed(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.owe({"/a": "1"})
    memory.owe({"/a": "2", "/b": "3"})
    assert opened(tmp_path).owed == {"/a": "1", "/b": "3"}
    memory.settle()
    assert opened(tmp_path).owed == {}


def test_what_is_owed_has_bounds_and_the_declared_stay(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    declared = [f"/etc/{number}" for number in range(500)]
    assert memory.owe(dict.fromkeys(declared, "1" * 64), declared) == 0
    untold = 0
    for number in range(0, 5_000, 100):  # a long outage, in which somebody fills a purged directory
        strays = {f"/etc/conf.d/{one}": "2" * 64 for one in range(number, number + 100)}
        untold += memory.owe(strays, declared)
    assert (tmp_path / "owed").stat().st_size < MAX_BYTES + 4096
    owed = opened(tmp_path).owed
    assert owed.keys() >= set(declared)
    assert len(owed) == 5_500 - untold
    strays_left = {int(path.rpartition("/")[2]) for path in owed if "conf.d" in path}
    assert len(strays_left) > 1000
    assert min(strays_left) >= 5_000 - 100 * (len(strays_left) // 100 + 1)  # the newest


def test_what_held_is_known_to_the_next_process(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.save_held({"file:/x": "aa"})
    assert opened(tmp_path).load_held() == {"file:/x": "aa"}


def test_what_a_full_disk_did_not_take_is_saved_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opened(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        broken.setattr(state_files, "write", full)
        memory.owe({"/a": "1"})
        assert not memory.save_held({"file:/x": "aa"})
    memory.owe({})
    assert memory.save_held({"file:/x": "aa"})
    assert (opened(tmp_path).owed, opened(tmp_path).load_held()) == ({"/a": "1"}, {"file:/x": "aa"})
