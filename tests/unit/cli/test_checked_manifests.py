"""Manifests that were found to be in order are not checked again; all others are."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.cli.manifests import checked_manifests, manifest_folder
from nodemanager.cli.manifests.checked_manifests import CheckedManifests
from nodemanager.host.state.journal import STATE
from nodemanager.host.state.vault import Vault
from nodemanager.kube import manifests
from nodemanager.kube.manifests import ManifestError

WEB = {
    "apiVersion": "common.nodemanager/v1",
    "kind": "ConfigSet",
    "metadata": {"name": "web", "labels": {"role": "web"}},
    "spec": {
        "files": [{"path": "/etc/motd", "ensure": "file", "content": "hello\n"}],
        "data": {"ratio": 0.5},
    },
}
NODE = {"apiVersion": "common.nodemanager/v1", "kind": "ManagedNode", "metadata": {"name": "web1"}}
TEXTS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "words"}, "data": {"a": "b"}}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"a": "secret"}}
BYTES = {**TEXTS, "binaryData": {"c": "/w=="}}


class Host:
    """A host that is given manifests again and again, by processes that begin anew."""

    def __init__(self, folder: Path) -> None:
        self.manifests, self.root = folder / "manifests", folder / "root"
        self.manifests.mkdir()
        self.root.mkdir()
        self.checked = 0

    @property
    def kept(self) -> Path:
        """The file in the state of the host."""
        return self.root / f"{STATE}/{checked_manifests.NAME}".lstrip("/")

    def declare(self, *objects: Mapping[str, object]) -> None:
        """Have these manifests."""
        (self.manifests / "all.yaml").write_text(manifests.dump(objects))

    def load(self, program: str = "this build") -> DeclaredInputs:
        """Load them, as a process does."""
        checked = CheckedManifests(Vault(str(self.root)), program, self.check)
        try:
            found = checked.load([self.manifests])
            checked.keep()
        finally:
            checked.close()
        return found

    def check(self, paths: Sequence[Path]) -> DeclaredInputs:
        self.checked += 1
        return manifest_folder.load(paths)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_what_was_checked_is_not_checked_again(host: Host) -> None:
    host.declare(WEB, NODE, TEXTS)
    first = host.load()
    assert host.load() == first
    assert host.checked == 1
    assert stat.S_IMODE(host.kept.stat().st_mode) == 0o600
    assert [one.metadata.name for one in first.nodes] == ["web1"]


def test_other_manifests_are_checked(host: Host) -> None:
    host.declare(WEB)
    host.load()
    host.declare(WEB, NODE)
    assert len(host.load().nodes) == 1
    (host.manifests / "more.yaml").write_text("kind: ConfigSet\n")
    with pytest.raises(ManifestError, match="apiVersion is missing"):
        host.load()
    assert host.checked == 3


def test_another_program_checks_anew_and_one_that_cannot_be_told_always(host: Host) -> None:
    host.declare(WEB)
    host.load()
    host.load("another build")
    host.load("")
    host.load("")
    assert host.checked == 4


@pytest.mark.parametrize("secret", [SECRET, BYTES])
def test_nothing_is_kept_of_secrets_and_of_what_would_not_come_back(
    host: Host, secret: Mapping[str, object]
) -> None:
    host.declare(WEB)
    host.load()
    assert host.kept.exists()
    host.declare(WEB, secret)
    host.load()
    assert not host.kept.exists()
    host.load()
    assert host.checked == 3


@pytest.mark.parametrize("damage", [b"", b"nodemanager checked 1 plain\n" + b"x" * 64])
def test_what_is_damaged_is_checked_anew(host: Host, damage: bytes) -> None:
    host.declare(WEB)
    host.load()
    host.kept.write_bytes(damage)
    host.load()
    host.load()
    assert host.checked == 2


def test_a_file_that_changes_while_it_is_checked_is_not_taken_for_checked(host: Host) -> None:
    host.declare(WEB)

    def check(paths: Sequence[Path]) -> DeclaredInputs:
        found = host.check(paths)
        host.declare(NODE)
        return found

    checked = CheckedManifests(Vault(str(host.root)), "this build", check)
    checked.load([host.manifests])
    checked.keep()
    checked.close()
    assert not host.kept.exists()


def test_a_host_without_room_for_it_is_served_all_the_same(host: Host) -> None:
    host.declare(WEB)
    host.kept.parent.parent.mkdir(parents=True)
    host.kept.parent.write_text("in the way")
    assert host.load() == host.load()
    assert host.checked == 2


def test_a_pipe_is_read_once(host: Host) -> None:
    """As of `apply <(sops decrypt site.yaml)`: read for its digest, it would declare nothing."""
    read, write = os.pipe()
    try:
        os.write(write, manifests.dump([WEB]).encode())
        os.close(write)
        checked = CheckedManifests(Vault(str(host.root)), "this build", host.check)
        found = checked.load([Path(f"/dev/fd/{read}")])
        checked.keep()
        checked.close()
    finally:
        os.close(read)
    assert [one.metadata.name for one in found.config_sets] == ["web"]
    assert not host.kept.exists()
