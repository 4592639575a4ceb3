"""The vault: tells whether what it has is whole, writes only what is new, and opens with its key only."""

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
from nodemanager.host.vault import Vault, VaultError, cipher_of

SECRET = b"the secret of this host"


def key_file(folder: Path, content: bytes = b"k" * 32, mode: int = 0o400) -> str:
    path = folder / f"key-{content[:1].hex()}"
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


def test_what_is_saved_is_there_and_private(tmp_path: Path) -> None:
    vault = Vault("/", str(tmp_path / "state"))
    assert vault.load("thing") is None
    assert vault.save("thing", b"one")
    assert Vault("/", str(tmp_path / "state")).load("thing") == b"one"
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "state" / "thing").stat().st_mode & 0o777 == 0o600
    assert vault.remove("thing")
    assert not vault.remove("thing")
    assert vault.load("thing") is None


@pytest.mark.parametrize("sealed", [False, True])
def test_what_is_there_already_is_not_written(tmp_path: Path, sealed: bool) -> None:
    cipher = cipher_of(key_file(tmp_path)) if sealed else None
    vault = Vault("/", str(tmp_path / "state"), cipher)
    assert vault.save("thing", b"one")
    before = (tmp_path / "state" / "thing").stat().st_ino
    again = Vault("/", str(tmp_path / "state"), cipher)
    again.load("thing")
    assert not again.save("thing", b"one")
    assert (tmp_path / "state" / "thing").stat().st_ino == before
    assert again.save("thing", b"two")


@pytest.mark.parametrize("sealed", [False, True])
def test_every_damage_is_noticed(tmp_path: Path, sealed: bool) -> None:
    cipher = cipher_of(key_file(tmp_path)) if sealed else None
    vault = Vault("/", str(tmp_path / "state"), cipher)
    vault.save("thing", SECRET)
    path = tmp_path / "state" / "thing"
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(VaultError, match=r"cannot use .*/thing: "):
            vault.load("thing")
        path.write_bytes(whole[:position])
        with pytest.raises(VaultError):
            vault.load("thing")


def test_encrypted_is_unreadable_and_bound_to_its_purpose(tmp_path: Path) -> None:
    state = tmp_path / "state"
    vault = Vault("/", str(state), cipher_of(key_file(tmp_path)))
    vault.save("thing", SECRET)
    assert SECRET not in (state / "thing").read_bytes()
    (state / "other").write_bytes((state / "thing").read_bytes())
    (state / "renamed").write_bytes((state / "thing").read_bytes().replace(b"thing", b"renamed", 1))
    for name in ("other", "renamed"):
        with pytest.raises(VaultError):
            vault.load(name)
    with pytest.raises(VaultError, match="does not open it"):
        Vault("/", str(state), cipher_of(key_file(tmp_path, b"x" * 32))).load("thing")
    with pytest.raises(VaultError, match="it is encrypted, and there is no key"):
        Vault("/", str(state)).load("thing")


def test_a_key_that_comes_later_encrypts_what_is_there(tmp_path: Path) -> None:
    state = tmp_path / "state"
    Vault("/", str(state)).save("thing", SECRET)
    vault = Vault("/", str(state), cipher_of(key_file(tmp_path)))
    assert vault.load("thing") == SECRET
    assert vault.save("thing", SECRET)
    assert SECRET not in (state / "thing").read_bytes()


def test_a_key_is_refused_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(VaultError, match="No such file"):
        cipher_of(str(tmp_path / "missing"))
    with pytest.raises(VaultError, match="head -c 32 /dev/urandom"):
        cipher_of(key_file(tmp_path, b"short\n"))
    with pytest.raises(VaultError, match="chmod 0400"):
        cipher_of(key_file(tmp_path, b"y" * 40, 0o644))
    with pytest.raises(VaultError, match="LoadCredential="):
        cipher_of("state.key")
    really = builtins.__import__

    def without(name: str, *args: Any, **more: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return really(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(VaultError, match="package cryptography is not installed"):
        cipher_of(key_file(tmp_path, b"z" * 32))


def test_a_credential_of_systemd_is_found_by_its_name(tmp_path: Path) -> None:
    path = Path(key_file(tmp_path))
    cipher = cipher_of(path.name, str(tmp_path))
    assert cipher.decrypt(b"0" * 12, cipher_of(str(path)).encrypt(b"0" * 12, SECRET, None), None) == SECRET


def test_what_could_not_be_written_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = Vault("/", str(tmp_path / "state"))
    vault.save("thing", b"one")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(VaultError, match="No space left"):
        vault.save("thing", b"two")
    monkeypatch.undo()
    assert vault.load("thing") == b"one"
    assert vault.save("thing", b"two")


ISOLATED = """
import site, sys
source, ours, hosts, key = sys.argv[1:]
sys.path[:0] = [source, ours]
site.getsitepackages = lambda: [hosts]
from nodemanager.host import vault
try:
    sealed = vault.cipher_of(key).encrypt(b"n" * 12, b"data", None)
    print(len(sealed), hosts in sys.path)
except vault.VaultError as error:
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
