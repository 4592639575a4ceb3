"""Ends or disturbs this very process at a chosen boundary: a call that changes something, or a program.

Everything is patched from outside, before the agent runs: the product knows nothing about it. Point 2n
is before the n-th boundary, point 2n + 1 right after it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

from nodemanager.host.files import durable
from nodemanager.native import libc

CALLS = (
    "fsync", "rename", "unlink", "rmdir", "mkdir", "symlink", "chown", "fchown", "fchmod", "write",
)  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Faults:
    """Counts boundaries; at the chosen point the process is killed, or the call fails.

    `watch` is called wherever it could be killed.
    """

    def __init__(self, point: int, error: int = 0, watch: Callable[[], None] = lambda: None) -> None:
        self.point = point
        self.error = error
        self.watch = watch
        self.passed = 0
        self.hit = ""

    def boundary(self, name: str, call: Callable[[], Any]) -> Any:
        """Make a call that may be the chosen one."""
        number, self.passed = self.passed, self.passed + 1
        if self.error:
            if number == self.point:
                self.hit = name
                raise OSError(self.error, os.strerror(self.error))
            return call()
        self.watch()
        if 2 * number == self.point:
            os.kill(os.getpid(), signal.SIGKILL)
        made = call()
        self.watch()
        if 2 * number + 1 == self.point:
            os.kill(os.getpid(), signal.SIGKILL)
        return made

    def install(self) -> None:
        """Patch this process."""
        for name in CALLS:
            setattr(os, name, self._wrapped(name, getattr(os, name)))
        really_open = os.open

        def opened(path: Any, flags: int, *args: Any, **more: Any) -> int:
            if flags & _WRITING or self.error:
                return int(self.boundary("open", lambda: really_open(path, flags, *args, **more)))
            return really_open(path, flags, *args, **more)

        os.open = opened
        assert durable._has_syncfs()  # found out before, so that asking is no boundary
        libc.syncfs = self._wrapped("syncfs", libc.syncfs)
        self._patch_programs()

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            return self.boundary(name, lambda: real(*args, **more))

        return call

    def _patch_programs(self) -> None:
        start = asyncio.create_subprocess_exec

        async def started(*args: Any, **more: Any) -> Any:
            self.boundary("before a program", lambda: None)
            process = await start(*args, **more)
            if not self.error:
                self.boundary("after starting a program", lambda: None)
            return process

        asyncio.create_subprocess_exec = started
