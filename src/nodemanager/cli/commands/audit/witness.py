"""`nodemanager audit cosign`: be a witness of somebody's log, with a key and a memory of one's own."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
import msgspec

from nodemanager.cli import audit_log
from nodemanager.cli.audit_log import CLUSTER
from nodemanager.cli.settings import connect
from nodemanager.fleet.audit import witnessing
from nodemanager.fleet.audit.witnessing import Witnessed
from nodemanager.host.state import credential_file
from nodemanager.native import ed25519
from nodemanager.tlog import notes, secret_keys
from nodemanager.tlog.cosignatures import Cosigner

MAX_FILE: Final = 1 << 20


@click.command(
    epilog="""\b
Examples:
  nodemanager audit cosign --key witness.key --create example.org/witness     once: make the key
  nodemanager audit cosign --key witness.key --log-key KEY > cosigned.txt     the log of the cluster
  nodemanager audit cosign --key witness.key /backup/audit > cosigned.txt     a copy of it
  nodemanager audit verify --checkpoint cosigned.txt --witness WITNESS-KEY    who asks for it
"""
)
@click.argument("where", default=CLUSTER, metavar="[FILE|FOLDER|cluster]")
@click.option("--key", "path", required=True, metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
              help="Your secret key; beside it, in FILE.seen, is kept what you cosigned.")  # fmt: skip
@click.option("--create", "name", default="", metavar="NAME",
              help="Make the key, of a name such as example.org/witness; print its public half.")  # fmt: skip
@click.option("--log-key", "given", multiple=True, metavar="KEY",
              help="The public key of the log, as it was noted when it began; needed once.")  # fmt: skip
@connect.options(namespaced=True)
def cosign(where: str, path: Path, name: str, given: tuple[str, ...], settings: connect.Settings) -> None:
    """Cosign the newest checkpoint of a log, if it goes on from all that you cosigned before.

    Prints the checkpoint with your cosignature (C2SP tlog-cosignature), for those who check the log. A log
    that was bent, rolled back or forked is refused, and the command ends with 1. Run it where the
    administrators of the cluster have no say.
    """
    if name:
        click.echo(_create(path, name))
        return
    witness = _read_key(path)
    keys = audit_log.keys(given)
    lines = audit_log.source(where, settings).lines
    with _memory(path.with_name(f"{path.name}.seen")) as memory:
        try:
            seen = witnessing.cosign(lines, memory.read(), keys, witness, int(datetime.now(UTC).timestamp()))
        except (witnessing.CosignatureRefused, notes.BadNote) as error:
            raise click.ClickException(str(error)) from None
        memory.write(seen)  # before anybody has the cosignature: we never cosign what we could forget
    click.echo(seen.note, nl=False)


def _create(path: Path, name: str) -> str:
    """Make a key; return its public half."""
    try:
        made = Cosigner(notes.checked_name(name), secrets.token_bytes(ed25519.SEED_SIZE))
        with open(path, "x", encoding="utf-8", opener=_private) as file:
            file.write(f"{secret_keys.encode(made)}\n")
    except FileExistsError:
        raise click.ClickException(f"cannot make the key {path}: there is one; it is not replaced") from None
    except (OSError, notes.BadNote) as error:
        raise click.ClickException(f"cannot make the key {path}: {error}") from None
    return str(made.key)


def _read_key(path: Path) -> Cosigner:
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise click.ClickException(f"cannot use the key {path}: others may read it; chmod 600 {path}")
            return secret_keys.read_cosigner(file.read(MAX_FILE).decode(errors="replace"))
    except OSError as error:
        raise click.ClickException(
            f"cannot read the key {path}: {error.strerror}; --create NAME makes one"
        ) from None
    except notes.BadNote as error:
        raise click.ClickException(f"{error}; see {path}") from None


class _Memory:
    """What a witness has cosigned, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Witnessed | None:
        """Return what is known of the log, if it was cosigned before."""
        try:
            data = self._path.read_bytes()[:MAX_FILE]
        except FileNotFoundError:
            return None
        except OSError as error:
            raise click.ClickException(f"cannot read {self._path}: {error.strerror}") from None
        try:
            found = msgspec.json.decode(data, type=Witnessed)
            witnessing.origin_of(found)
        except (msgspec.DecodeError, notes.BadNote):
            raise click.ClickException(
                f"cannot read {self._path}, which says what was cosigned: restore it from a backup. Without"
                " it nobody can tell whether the log was rolled back"
            ) from None
        return found

    def write(self, seen: Witnessed) -> None:
        """Have it on disk when this returns."""
        credential_file.write(self._path, msgspec.json.encode(seen) + b"\n")


@contextlib.contextmanager
def _memory(path: Path) -> Iterator[_Memory]:
    """Have the memory alone: two at once could cosign two different logs."""
    try:
        descriptor = _private(str(path.with_name(f"{path.name}.lock")), os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise click.ClickException(f"cannot cosign: {path}: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield _Memory(path)
    finally:
        os.close(descriptor)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
