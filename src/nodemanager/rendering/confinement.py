"""What a process gives up before it reads the first byte of a template.

No descriptor beyond the one it has, no file to write, no other process, no privilege to gain, and no root.
If a system cannot take something from us, that is reported, so that people can know.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Final

from nodemanager.native import libc  # here: once root is gone, modules may be closed to us

NOBODY: Final = 65534
HARD_MEMORY: Final = 1024 * 1024 * 1024
"""Bytes on top of what is used, beyond which no request may raise its limit."""
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_NO_NEW_PRIVS: Final = 38


def confine(parent: int) -> list[str]:
    """Give up everything; return what could not be given up, and why."""
    kept = [*_drop_root(), *_kernel(parent)]
    for name in ("RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_NPROC", "RLIMIT_NOFILE"):
        kept += _attempt(name, partial(resource.setrlimit, getattr(resource, name), (0, 0)))
    return kept


def limit_memory(more: int) -> None:
    """Allow so many bytes on top of what is used now."""
    used = _address_space()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    ceiling = used + HARD_MEMORY if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_AS, (min(used + more, ceiling), ceiling))


def limit_processor(seconds: int) -> None:
    """Allow so many more seconds of processor time, rounded up; SIGXCPU ends the process after that."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(used.ru_utime + used.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def peak() -> int:
    """Return the bytes of memory that this process had at most.

    What the kernel counts for a process begins with the one that it was forked from: so the file is asked.
    """
    if _Opened.status >= 0:
        said = os.pread(_Opened.status, 8192, 0).partition(b"VmHWM:")[2]
        if said:
            return int(said.split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


_PAGE: Final = resource.getpagesize()


class _Opened:
    """Files that say how large we are, opened while that was still possible."""

    statm = -1
    status = -1


def prepare() -> None:
    """Open what is asked for later, and be the first to go where memory is short."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123
        file.write("1000")
    with contextlib.suppress(OSError):  # a system without them
        _Opened.statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        _Opened.status = os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)


def _address_space() -> int:
    if _Opened.statm < 0:
        return peak()
    return int(os.pread(_Opened.statm, 64, 0).split()[0]) * _PAGE


def _drop_root() -> list[str]:
    if os.geteuid() != 0:
        return []

    def drop() -> None:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)

    return _attempt("root", drop)


def _kernel(parent: int) -> list[str]:
    """End with the parent, gain nothing by a setuid program, and be no one's to trace."""
    if sys.platform != "linux":
        return []
    options = (
        ("PR_SET_NO_NEW_PRIVS", _PR_SET_NO_NEW_PRIVS, 1),
        ("PR_SET_DUMPABLE", _PR_SET_DUMPABLE, 0),
        # After root is gone: a change of the user takes it back.
        ("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, signal.SIGKILL),
    )
    kept = [text for name, *rest in options for text in _attempt(name, partial(libc.prctl, *rest))]
    if os.getppid() != parent:  # it ended before we could ask for a signal about that
        os._exit(0)
    return kept


def _attempt(name: str, action: Callable[[], None]) -> list[str]:
    try:
        action()
    except OSError as error:
        return [f"{name}: {error.strerror or error}"]
    return []
