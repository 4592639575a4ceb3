"""A process that has imported nodemanager, and becomes its commands by forking: `forks` asks it to.

A new interpreter imports for half a second; a fork of this one has done that. A child is a child of whoever
started this process (CLONE_PARENT), with the arguments, environment, folder, descriptors and session asked
for. From there on it is what `python -m MODULE` would be, exit code, signals and all.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import importlib
import io
import os
import pkgutil
import platform
import runpy
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

_CLONE: Final = {"x86_64": 56, "aarch64": 220}
_CLONE_PARENT: Final = 0x8000
LARGEST: Final = 160 * 1024
"""Bytes of a request."""
_OUT_OF_THE_WAY: Final = 64
"""The lowest descriptor of those that wait to be put in their places."""


class Request(msgspec.Struct, frozen=True):
    """What a child is to be; its descriptors come along in the order of `places`."""

    argv: list[bytes]
    environ: dict[bytes, bytes]
    folder: bytes
    places: list[int]
    session: bool
    group: int


def is_possible() -> bool:
    """Tell whether this machine is one where it was tried: the tid that another libc keeps would be wrong."""
    return platform.machine() in _CLONE and platform.libc_ver()[0] == "glibc"


def main() -> None:
    """Fork for each request that comes through the socket; end with it."""
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        _import_all()
        gc.collect()
        gc.freeze()  # children leave these pages alone
        channel.send(b"ready")
        become = _serve(channel)
    if become is not None:
        _become(*become)


def _import_all() -> None:
    import nodemanager

    for found in pkgutil.walk_packages(nodemanager.__path__, "nodemanager."):
        if not found.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # what needs a library that is not installed
                importlib.import_module(found.name)
    importlib.import_module("nodemanager.api.crds").all_crds()
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a fork has no other threads than this one"


def _serve(channel: socket.socket) -> tuple[Request, list[int]] | None:
    """Return in each child with what it is to be, and here with nothing in the end."""
    decoder = msgspec.msgpack.Decoder(Request)
    while True:
        data, descriptors, _, _ = socket.recv_fds(channel, LARGEST, 64)
        if not data:
            return None
        pid = _fork()
        if pid == 0:
            return decoder.decode(data), descriptors
        for one in descriptors:
            os.close(one)
        channel.send(str(pid).encode())


def _fork() -> int:
    """Fork as `os.fork` does, except that the child is a sibling."""
    python = ctypes.PyDLL(None)
    python.PyOS_BeforeFork()
    pid = int(python.syscall(_CLONE[platform.machine()], _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0))
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    return pid


def _become(request: Request, descriptors: list[int]) -> None:
    """Be the program that was asked for, until it ends."""
    _arrange(dict(zip(request.places, descriptors, strict=True)))
    if request.session:
        os.setsid()
    if request.group >= 0:
        os.setpgid(0, request.group)
    os.chdir(request.folder)
    os.environb.clear()
    os.environb.update(request.environ)
    time.tzset()
    argv = [os.fsdecode(one) for one in request.argv]
    sys.orig_argv, sys.argv, sys.path[0] = argv, argv[2:], str(Path.cwd())
    _open_standard()
    runpy.run_module(argv[2], run_name="__main__", alter_sys=True)


def _arrange(wanted: dict[int, int]) -> None:
    """Have each descriptor in its place, and no other."""
    above = max(_OUT_OF_THE_WAY, *(place + 1 for place in wanted), *(one + 1 for one in wanted.values()))
    waiting = {place: fcntl.fcntl(one, fcntl.F_DUPFD, above) for place, one in wanted.items()}
    os.closerange(0, above)
    for place, one in waiting.items():
        os.dup2(one, place)
    os.closerange(above, max(waiting.values()) + 1)


def _open_standard() -> None:
    """Read and write what is in places 0, 1 and 2 now, as a new interpreter would."""
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    for place, name in enumerate(("stdin", "stdout", "stderr")):
        before = getattr(sys, name)
        mode, buffering = ("rb", -1) if place == 0 else ("wb", 0 if unbuffered else -1)
        binary = open(place, mode, buffering, closefd=False)  # noqa: SIM115
        text = io.TextIOWrapper(
            binary, before.encoding, before.errors, newline="\n", write_through=unbuffered,
            line_buffering=not unbuffered and (place == 2 or binary.isatty()),
        )  # fmt: skip
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)


if __name__ == "__main__":
    main()
