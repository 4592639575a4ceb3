"""A credential is written whole, private, and only where nobody else could have a hand in it."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from nodemanager.host.state import credential_file, state_files
from nodemanager.kube.errors import ConfigError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_private_whatever_the_umask_and_the_old_file_say(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "kubeconfig"
    before = os.umask(0)
    try:
        credential_file.write(target, b"one")
    finally:
        os.umask(before)
    assert (mode(target), mode(target.parent), target.read_bytes()) == (0o600, 0o750, b"one")
    target.chmod(0o644)
    credential_file.write(target, b"two")
    assert (mode(target), target.read_bytes()) == (0o600, b"two")
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("kind", ["link", "dangling link", "directory", "fifo"])
def test_what_is_no_plain_file_is_refused_and_left_alone(tmp_path: Path, kind: str) -> None:
    target, victim = tmp_path / "kubeconfig", tmp_path / "victim"
    victim.write_text("precious")
    if kind == "link":
        target.symlink_to(victim)
    elif kind == "dangling link":
        target.symlink_to(tmp_path / "nowhere")
    elif kind == "directory":
        target.mkdir()
    else:
        os.mkfifo(target)
    before = target.lstat()
    why = {"link": "symbolic link; remove it", "directory": "a directory", "fifo": "not a regular file"}
    with pytest.raises(ConfigError, match=f"cannot write .*kubeconfig: it is .*{why[kind.split()[-1]]}"):
        credential_file.write(target, b"secret")
    assert target.lstat().st_ino == before.st_ino
    assert victim.read_text() == "precious"
    assert sorted(tmp_path.iterdir()) == [target, victim]


def test_folders_of_others_and_files_in_the_way_are_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(ConfigError, match=r"others may write to .*shared; run chmod go-w"):
        credential_file.check_target(shared / "kubeconfig")
    shared.chmod(0o1777)  # as /tmp
    credential_file.write(shared / "kubeconfig", b"x")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"file is not a directory"):
        credential_file.check_target(tmp_path / "file" / "deeper" / "kubeconfig")
    if os.geteuid() == 0:
        os.chown(shared, 12345, 12345)
        shared.chmod(0o755)
        with pytest.raises(ConfigError, match=r"shared belongs to user 12345, not to us"):
            credential_file.check_target(shared / "kubeconfig")


def test_where_nothing_can_be_written_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_args, **_more: False)  # root may write anywhere
    with pytest.raises(ConfigError, match=r"is not writable; (run as root|look at lsattr)"):
        credential_file.check_target(tmp_path / "kubeconfig")


def test_a_link_of_ours_above_it_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "etc").symlink_to("real")
    credential_file.write(tmp_path / "etc" / "sub" / "kubeconfig", b"x")
    assert (tmp_path / "real" / "sub" / "kubeconfig").read_bytes() == b"x"
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(ConfigError, match="nowhere does not exist"):
        credential_file.write(tmp_path / "dangling" / "kubeconfig", b"x")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make links of others")
@pytest.mark.parametrize("below", ["kubeconfig", "sub/kubeconfig"])
def test_a_link_that_others_planted_above_it_is_not_followed_and_nothing_is_made(
    tmp_path: Path, below: str
) -> None:
    victim, shared = tmp_path / "victim", tmp_path / "shared"
    victim.mkdir()
    (victim / "kubeconfig").write_bytes(b"old")
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "planted").symlink_to(victim)
    os.lchown(shared / "planted", 12345, 12345)
    for act in (credential_file.check_target, lambda path: credential_file.write(path, b"secret")):
        with pytest.raises(ConfigError, match="planted is a link made by user 12345, which is not followed"):
            act(shared / "planted" / below)
    assert [one.name for one in victim.iterdir()] == ["kubeconfig"]
    assert (victim / "kubeconfig").read_bytes() == b"old"


def test_a_folder_that_cannot_be_made_is_one_clear_error() -> None:
    with pytest.raises(ConfigError, match=r"cannot write /proc/nodemanager/kubeconfig: "):
        credential_file.write(Path("/proc/nodemanager/kubeconfig"), b"x")


def test_a_reader_never_sees_half_of_it(tmp_path: Path) -> None:
    target = tmp_path / "kubeconfig"
    contents = [bytes([letter]) * 65536 for letter in b"ab"]
    credential_file.write(target, contents[0])
    over = threading.Event()
    torn: list[bytes] = []

    def read() -> None:
        while not over.is_set():
            if (found := target.read_bytes()) not in contents:
                torn.append(found)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(60):
        credential_file.write(target, contents[number % 2])
    over.set()
    reader.join(90)
    assert torn == []


def test_a_failure_half_way_leaves_the_old_one_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "kubeconfig"
    credential_file.write(target, b"old")

    def half(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data[:2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state_files, "write_all", half)
    with pytest.raises(ConfigError, match="No space left on device"):
        credential_file.write(target, b"new and long")
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]
