"""The vault: tells whether what it has is whole, writes only what is new, and opens with its key only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodemanager.host.state.state_key import cipher_of
from nodemanager.host.state.vault import Vault, VaultError
from support.state_keys import key_file

SECRET = b"the secret of this host"


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
