"""Hears when network interfaces, or their addresses, come and go: a netlink socket, on Linux."""

from __future__ import annotations

import socket
from typing import Final

from nodemanager.host.base import HostError, NotSupported
from nodemanager.host.watches.event_reader import EventReader
from nodemanager.host.watches.inbox import Concern, Inbox, SettleTime

SETTLE: Final = SettleTime(0.1, 1.0)
"""An interface that comes up sends several messages."""
_ROUTE: Final = 0
_GROUPS: Final = 0x1 | 0x10 | 0x100
"""RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR."""
_CHUNK: Final = 64 * 1024
_MAX_MESSAGES: Final = 256


class LinkWatch:
    """The interfaces of this host."""

    def __init__(self, inbox: Inbox) -> None:
        if not hasattr(socket, "AF_NETLINK"):
            raise NotSupported("cannot watch network interfaces: this system has no netlink")
        self._inbox = inbox
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _ROUTE)
            try:
                self._socket.bind((0, _GROUPS))
            except OSError:
                self._socket.close()
                raise
        except OSError as error:
            raise HostError(f"cannot watch network interfaces: {error.strerror}") from error
        self._reader = EventReader(self._socket.fileno(), self._drain)

    def close(self) -> None:
        """Listen no more."""
        self._reader.close()
        self._socket.close()

    def _drain(self) -> None:
        for _ in range(_MAX_MESSAGES):
            try:
                self._socket.recv(_CHUNK)
            except BlockingIOError:
                break
            except OSError:  # messages were lost, which is a message, too
                continue
        self._inbox.add(Concern(inventory=True), SETTLE)
