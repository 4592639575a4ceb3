"""The key of Secrets on disk: refused, with the remedy, wherever somebody else may know it or have put it."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import nodemanager
from nodemanager.host.state.state_key import KeyRefused, cipher_of
from support.state_keys import key_file

SECRET = b"the secret of this host"
STRANGER = 54321


def test_a_key_is_refused_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyRefused, match="No such file"):
        cipher_of(str(tmp_path / "missing"))
    with pytest.raises(KeyRefused, match="head -c 32 /dev/urandom"):
        cipher_of(key_file(tmp_path, b"short\n"))
    with pytest.raises(KeyRefused, match="LoadCredential="):
        cipher_of("state.key")
    really = builtins.__import__

    def without(name: str, *args: Any, **more: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return really(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(KeyRefused, match="package cryptography is not installed"):
        cipher_of(key_file(tmp_path, b"z" * 32))


@pytest.mark.parametrize("mode", [0o644, 0o404, 0o440, 0o640, 0o420, 0o402, 0o410, 0o401])
def test_a_key_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = key_file(tmp_path, mode=mode)
    with pytest.raises(KeyRefused, match=rf"cannot use the key .*mode {mode:04o}.*run chmod 0400 {path}"):
        cipher_of(path)


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o700])
def test_a_key_of_our_own_is_used(tmp_path: Path, mode: int) -> None:
    cipher_of(key_file(tmp_path, mode=mode))


def owned_by_a_stranger(path: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Make a file somebody else's; where we may not, be somebody else. Return whose it is."""
    if os.geteuid() == 0:
        os.chown(path, STRANGER, -1)
        return STRANGER
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    return owner


def test_a_key_that_somebody_else_owns_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = key_file(tmp_path)
    owner = owned_by_a_stranger(path, monkeypatch)
    with pytest.raises(KeyRefused, match=f"cannot use the key .*: user {owner} owns it.*make a new one"):
        cipher_of(path)


def test_a_key_is_read_through_no_link_of_its_own_and_from_nothing_but_a_file(tmp_path: Path) -> None:
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(key_file(tmp_path))
    os.mkfifo(pipe, 0o400)
    for path, why in (
        (link, "it is a symbolic link; name the file that it points to"),
        (pipe, "it is not a regular file"),
        (tmp_path, "it is not a regular file"),
    ):
        with pytest.raises(KeyRefused, match=f"cannot use the key {path}: {why}"):
            cipher_of(str(path))


def test_a_key_is_read_through_no_folder_that_others_linked(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    key = Path(key_file(tmp_path / "real"))
    (tmp_path / "etc").symlink_to("real")
    path = str(tmp_path / "etc" / key.name)
    cipher_of(path)  # a link of our own, in a folder of our own
    tmp_path.chmod(0o777)  # now anybody may have put it there
    with pytest.raises(KeyRefused, match=r"cannot read the key .* which is not followed"):
        cipher_of(path)


def test_a_credential_of_systemd_is_found_by_its_name(tmp_path: Path) -> None:
    path = Path(key_file(tmp_path))
    cipher = cipher_of(path.name, str(tmp_path))
    assert cipher.decrypt(b"0" * 12, cipher_of(str(path)).encrypt(b"0" * 12, SECRET, None), None) == SECRET
    path.chmod(0o440)  # as the mask of an ACL shows, with which systemd lets the user of a service read it
    cipher_of(path.name, str(tmp_path))
    path.chmod(0o444)
    with pytest.raises(KeyRefused, match="mode 0444"):
        cipher_of(path.name, str(tmp_path))


ISOLATED = """
import site, sys
source, ours, hosts, key = sys.argv[1:]
sys.path[:0] = [source, ours]
site.getsitepackages = lambda: [hosts]
from nodemanager.host.state import state_key
try:
    sealed = state_key.cipher_of(key).encrypt(b"n" * 12, b"data", None)
    print(len(sealed), hosts in sys.path)
except state_key.KeyRefused as error:
    print(error)
"""


def test_a_program_without_site_packages_encrypts_with_those_of_the_host(tmp_path: Path) -> None:
    packages, source = Path(msgspec.__file__).parents[1], Path(nodemanager.__file__).parents[1]
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/msgspec").symlink_to(packages / "msgspec")

    def run(hosts: Path) -> str:
        argv = ["-IS", "-c", ISOLATED, str(source), f"{tmp_path}/ours", str(hosts), key_file(tmp_path)]
        return subprocess.run(
            [sys.executable, *argv], capture_output=True, text=True, check=True, timeout=30
        ).stdout

    assert run(packages) == "20 False\n"
    assert "cannot encrypt: the Python package cryptography is not installed" in run(tmp_path)
