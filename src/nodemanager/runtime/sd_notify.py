"""Reports our state to the service manager: the messages of sd_notify(3), without libsystemd.

Without NOTIFY_SOCKET in the environment, no message is sent. A message that does not
arrive is no reason to stop working, so nothing in here raises.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from nodemanager.kube.wording import shorten

log = logging.getLogger(__name__)
MAX_STATUS: Final = 300
"""Characters of the line that `systemctl status` shows; more would not fit a terminal."""


@dataclass(frozen=True, slots=True)
class Notifications:
    """A way to the service manager; an empty address is none."""

    address: str = ""
    """Path of a datagram socket; `@` in front: one of the kernel's own names, without a file."""
    watchdog: float | None = None
    """Seconds of silence after which the service manager ends us; None = it does not."""

    @classmethod
    def of(cls, environ: Mapping[str, str], pid: int) -> Notifications:
        """Return what the environment says; a watchdog that is meant for another process is not ours."""
        address = environ.get("NOTIFY_SOCKET", "")
        if not address.startswith(("/", "@")):
            return cls()
        return cls(address, _watchdog(environ, pid))

    def ready(self) -> None:
        """Say that we have begun, or are done with what `reloading` announced."""
        self._send("READY=1")

    def reloading(self) -> None:
        """Say that we look at everything again; `ready` ends it."""
        microseconds = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send(f"RELOADING=1\nMONOTONIC_USEC={microseconds}")

    def stopping(self) -> None:
        """Say that we are about to end."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """Say that all is well, which has to be said in time again and again."""
        self._send("WATCHDOG=1")

    def status(self, text: str) -> None:
        """Say in one line how it goes."""
        self._send("STATUS=" + shorten(" ".join(text.split()), MAX_STATUS))

    def _send(self, message: str) -> None:
        if not self.address:
            return
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        flags = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        try:
            with socket.socket(socket.AF_UNIX, flags) as out:
                out.sendto(message.encode("utf-8", "replace"), address)
        except OSError as error:
            log.debug("cannot tell the service manager %s: %s", message, error)


def of_process() -> Notifications:
    """Return the way to the service manager of this process."""
    return Notifications.of(os.environ, os.getpid())


def _watchdog(environ: Mapping[str, str], pid: int) -> float | None:
    try:
        microseconds = int(environ.get("WATCHDOG_USEC", ""))
        meant = int(environ.get("WATCHDOG_PID") or pid)
    except ValueError:
        return None
    return microseconds / 1e6 if microseconds > 0 and meant == pid else None
