"""The program as a file: whether this host can run it, its version, and which package owns it."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path
from typing import Final, NamedTuple

from nodemanager.host.base import HostError, NotSupported, Runner
from nodemanager.host.process import runner
from nodemanager.host.process.runner import CommandNotFound
from nodemanager.host.self_update import processors
from nodemanager.native import BUILT_IN

HEAD: Final = 4096
VERSION_SECONDS: Final = 120.0
"""A first start unpacks; on a small board that takes its time."""
_LAUNCHER: Final = b"nodemanager"
_VERSION: Final = re.compile(r"nodemanager ([0-9A-Za-z][0-9A-Za-z.+~-]{0,63}) ")
_OWNERS: Final = (
    ("dpkg-query", "--search"), ("rpm", "--query", "--file"), ("pacman", "--query", "--owns", "--quiet"),
    ("apk", "info", "--who-owns"), ("pkg", "which", "--quiet"),
)  # fmt: skip
"""Commands that ask package managers for the owner of a file; they fail if it has none."""


class Digests(NamedTuple):
    """Digests that identify a content."""

    sha256: str
    blake2b: bytes
    """Of 64 bytes, the form that minisign signs."""


def check_head(head: bytes, arch: str) -> None:
    """Raise unless the beginning of a file is that of a program of ours for an architecture; pure."""
    found, wanted = processors.of_head(head), processors.PROCESSORS.get(arch)
    if found is not None:
        if wanted is not None and found != wanted:
            raise HostError(f"cannot use the file: it is for another kind of processor than {arch}")
    elif not head.startswith(b"#!/bin/sh\n") or _LAUNCHER not in head:
        raise HostError("cannot use the file: it is neither an executable nor bin/manager")


def head_of(path: str) -> bytes:
    """Return the beginning of a file."""
    with Path(path).open("rb") as file:
        return file.read(HEAD)


def sha256_of(path: str) -> str:
    """Return the digest of a file."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_replaceable(path: str) -> None:
    """Raise unless a program is one file that can be replaced by another one."""
    try:
        check_head(head_of(path), "")
    except HostError as error:
        raise NotSupported(
            f"cannot upgrade {path}: it is no single file, as make build and make release make, but part of"
            " an installed Python package; upgrade that"
        ) from error
    except OSError as error:
        raise HostError(f"cannot read {path}: {error.strerror or error}") from error


async def check_owner(path: str, run: Runner) -> None:
    """Raise if a package brought the program: its package manager would not know of another one."""
    for argv in _OWNERS:
        try:
            done = await run([*argv, path], timeout=60.0)
        except CommandNotFound:
            continue
        if done.returncode == 0 and done.stdout.strip():
            owner = done.stdout.decode("utf-8", "replace").strip().splitlines()[0][:200]
            raise NotSupported(
                f"cannot upgrade {path}: it is part of a package ({owner}), whose package manager would put"
                " back the old one; upgrade that package, say by a step or a ConfigSet"
            )


async def version_of(path: str, run: Runner) -> str:
    """Return the version that a program says it is: so it runs here. It gets nothing of our environment."""
    done = await run([path, "--version"], timeout=VERSION_SECONDS)
    found = _VERSION.match(done.stdout.decode("utf-8", "replace"))
    if done.returncode != 0 or found is None:
        said = runner.tail(done.stderr or done.stdout, 200) or "it says nothing"
        raise HostError(f"cannot use the file: asked for its version, it ends with {done.returncode}: {said}")
    return found[1]


def is_running(path: str) -> bool:
    """Tell whether this process is the program that is at a path now, and not one that was there before."""
    try:
        if BUILT_IN:
            return Path("/proc/self/exe").samefile(path)
        unpacked = Path(str(getattr(sys.modules["__main__"], "__file__", ""))).parent.name
        return bool(re.fullmatch("[0-9a-f]{24}", unpacked)) and unpacked.encode() in head_of(path)
    except OSError:  # FreeBSD without /proc: the processes that were started by this path
        return BUILT_IN and sys.platform != "linux"
