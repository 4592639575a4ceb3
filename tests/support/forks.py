"""Forks `python -m nodemanager` off a process that has imported it, instead of starting an interpreter.

Whatever a test starts by `subprocess` or `asyncio` as this interpreter with `-m nodemanager ...` (or a
program of `support`) is a child of its own with the same arguments, environment, folder, descriptors and
session. Where one of these asks for a new interpreter, there is one. Tests that are about the start of a
process, or about how it looks from outside (its memory, its command line), say so: `pytest.mark.execs`.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from support import cli, fork_parent, inheritance
from support.fork_parent import Request

_execute: Final[Callable[..., None]] = subprocess.Popen._execute_child  # type: ignore[attr-defined]
_PARAMETERS: Final = inspect.signature(_execute)
_KINDS: Final = ("nodemanager", "support.")
_TIERS: Final = (Path(__file__).parents[1] / "unit", Path(__file__).parents[1] / "contract")
_READ_AT_START: Final = ("PYTHON", "LC_", "LANG")
"""Variables that an interpreter looks at before it runs a line."""
_HONOURED: Final = "PYTHONUNBUFFERED"
"""One that a fork can look at, too."""


class ForkParent:
    """The process to fork off."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._turn = threading.Lock()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "support.fork_parent", str(theirs.fileno())],
                env=environ, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )  # fmt: skip
        assert self._channel.recv(100) == b"ready"

    def fork(self, request: Request, descriptors: Sequence[int]) -> int:
        """Return the process id of a new child of ours."""
        with self._turn:
            socket.send_fds(self._channel, [msgspec.msgpack.encode(request)], list(descriptors))
            return int(self._channel.recv(100))

    def end(self) -> None:
        """Have it end; its children are ours, and go on."""
        self._channel.close()
        self._process.wait(60)


class _State:
    """What is known in this process."""

    allowed = False
    parent: ForkParent | None = None
    starting = threading.Lock()
    environ: Mapping[str, str] = {}
    inherited: Mapping[str, str] = {}
    """Both as they were before the first test, whichever test is the first to start a program."""


@contextlib.contextmanager
def execs() -> Iterator[None]:
    """Start interpreters in this block."""
    before, _State.allowed = _State.allowed, False
    try:
        yield
    finally:
        _State.allowed = before


def forget() -> None:
    """End the process to fork off; the next program that is started has a new one."""
    if _State.parent is not None:
        _State.parent.end()
        _State.parent = None


def _execute_child(self: subprocess.Popen[Any], *args: Any, **kwargs: Any) -> None:
    """Take the place of the method of `subprocess.Popen`."""
    wish = _PARAMETERS.bind(self, *args, **kwargs).arguments
    parent = _parent() if _State.allowed and _is_ours(wish) and _is_alike(wish) else None
    if parent is None:
        _execute(self, *args, **kwargs)
        return
    pipes = [wish[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")]
    given = enumerate((wish["p2cread"], wish["c2pwrite"], wish["errwrite"]))
    standard = [place if one == -1 else one for place, one in given]
    passed = sorted(set(wish["pass_fds"]))
    environ = os.environ if wish["env"] is None else wish["env"]
    request = Request(
        argv=[os.fsencode(one) for one in wish["args"]],
        environ={os.fsencode(name): os.fsencode(value) for name, value in environ.items()},
        folder=os.fsencode(_folder(wish)),
        places=[0, 1, 2, *passed],
        session=bool(wish["start_new_session"]),
        group=-1 if wish["process_group"] is None else wish["process_group"],
    )
    self.pid = parent.fork(request, [*standard, *passed])
    vars(self)["_child_created"] = True
    self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def _parent() -> ForkParent | None:
    with _State.starting:
        if _State.parent is None and fork_parent.is_possible():
            with execs():
                _State.parent = ForkParent(_State.environ)
        return _State.parent


def _is_ours(wish: Mapping[str, Any]) -> bool:
    """Tell whether it is one of our programs that is started, in no special way."""
    argv, special = wish["args"], ("executable", "preexec_fn", "shell", "gid", "gids", "uid")
    if isinstance(argv, str | bytes | os.PathLike) or any(wish[name] for name in special):
        return False
    return (
        list(argv[:2]) == [sys.executable, "-m"]
        and str(argv[2]).startswith(_KINDS)
        and wish["close_fds"]
        and wish["umask"] < 0
        and Path(_folder(wish)).is_dir()
    )


def _is_alike(wish: Mapping[str, Any]) -> bool:
    """Tell whether a fork would be what a new interpreter is."""
    environ = os.environ if wish["env"] is None else wish["env"]
    return (
        _read_at_start(environ) == _read_at_start(_State.environ)
        and inheritance.of_children() == _State.inherited
    )


def _read_at_start(environ: Mapping[Any, Any]) -> dict[str, str]:
    named = {os.fsdecode(name): os.fsdecode(value) for name, value in environ.items()}
    return {name: one for name, one in named.items() if name.startswith(_READ_AT_START) and name != _HONOURED}


def _folder(wish: Mapping[str, Any]) -> str:
    return os.fsdecode(wish["cwd"]) if wish["cwd"] is not None else str(Path.cwd())


def pytest_configure(config: pytest.Config) -> None:
    """Look at everything that is started."""
    _State.environ, _State.inherited = cli.environment(), inheritance.of_children()
    subprocess.Popen._execute_child = _execute_child  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Fork for tests of the product, unless they are about the start of a process."""
    is_of_product = any(item.path.is_relative_to(one) for one in _TIERS)
    _State.allowed = is_of_product and item.get_closest_marker("execs") is None
    try:
        return (yield)
    finally:
        _State.allowed = False


def pytest_unconfigure() -> None:
    """Leave nothing behind."""
    subprocess.Popen._execute_child = _execute  # type: ignore[attr-defined]
    forget()
