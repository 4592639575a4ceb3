"""Signatures that minisign and signify check, made by minisign with a key of the user's."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tools.release.sources import CannotBuild


def check(key: Path) -> None:
    """Raise unless a key signs: what is built takes long, and a wrong password is found out sooner."""
    with tempfile.TemporaryDirectory(prefix="nodemanager-sign-") as folder:
        trial = Path(folder) / "a small file"
        trial.write_text("nothing\n", encoding="utf-8")
        sign([trial], key, "0", 0)


def sign(files: Iterable[Path], key: Path, version: str, epoch: int) -> list[Path]:
    """Sign each file and return the signatures; minisign asks for the password of the key, if it has one."""
    program = shutil.which("minisign")
    if program is None:
        raise CannotBuild("cannot sign: there is no minisign; install it, or leave the key out")
    if not key.is_file():
        raise CannotBuild(f"cannot sign: there is no key {key}; make one with minisign -G -s {key}")
    signatures = []
    for file in files:
        signature = file.with_name(f"{file.name}.minisig")
        signature.unlink(missing_ok=True)
        # The comment is signed, too: an old file does not become a new one by another name.
        comment = f"timestamp:{epoch}\tfile:{file.name}\tversion:{version}"
        done = subprocess.run(  # noqa: S603 - an argv
            [program, "-S", "-s", str(key), "-m", str(file), "-x", str(signature), "-t", comment], check=False
        )
        if done.returncode != 0:
            raise CannotBuild(
                f"cannot sign {file.name}: minisign failed; is {key} a secret key, and the password right?"
            )
        signatures.append(signature)
    return signatures
