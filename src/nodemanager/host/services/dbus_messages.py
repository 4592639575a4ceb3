"""D-Bus messages to bytes and back, on jeepney; imported when the first service is looked at."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from jeepney.low_level import HeaderFields, Message, MessageType, Parser
from jeepney.wrappers import DBusAddress, new_method_call

MAX_MESSAGE: Final = 16 * 1024 * 1024
"""D-Bus allows 128 MiB; no answer to our calls is nearly so large."""

_BROKEN: Final = (ValueError, LookupError, TypeError, AttributeError, RecursionError, struct.error)
"""Errors that the library raises on bytes that are no message."""


class MalformedMessage(ValueError):
    """These bytes are no D-Bus message that we accept."""


@dataclass(frozen=True, slots=True)
class BusCall:
    """One method call; `signature` says of which D-Bus types the arguments are."""

    destination: str
    """The service on the bus; it is also set without a bus in between, where it is ignored."""
    path: str
    interface: str
    method: str
    signature: str = ""
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class BusReply:
    """The answer to a call."""

    serial: int
    """Number of the call."""
    body: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class BusFailure:
    """The error reply to a call."""

    serial: int
    code: str
    said: str


@dataclass(frozen=True, slots=True)
class Signal:
    """Something that happened."""

    path: str
    interface: str
    name: str
    body: tuple[Any, ...]


def encode(call: BusCall, serial: int) -> bytes:
    """Return the bytes of a call."""
    address = DBusAddress(call.path, call.destination, call.interface)
    message = new_method_call(address, call.method, call.signature or None, call.arguments)
    return bytes(message.serialise(serial))


class Decoder:
    """Puts messages together from what arrives."""

    def __init__(self) -> None:
        self._parser = Parser()

    def feed(self, data: bytes) -> None:
        """Add what arrived."""
        self._parser.add_data(data)

    def next(self) -> BusReply | BusFailure | Signal | None:
        """Return the next message that is complete; what is none of these three is passed over."""
        while True:
            try:
                message = self._parser.get_next_message()
                found = None if message is None else _sort(message)
                missing = self._parser.bytes_desired() if message is None else 0
            except _BROKEN as error:
                raise MalformedMessage(f"that is no D-Bus: {error}") from error
            if message is None:
                if missing > MAX_MESSAGE:  # according to its own header; the rest is not needed
                    raise MalformedMessage(f"a message is larger than {MAX_MESSAGE} bytes")
                return None
            if found is not None:
                return found


def _sort(message: Message) -> BusReply | BusFailure | Signal | None:
    fields, kind, body = message.header.fields, message.header.message_type, tuple(message.body)
    if kind is MessageType.signal:
        path, interface = fields.get(HeaderFields.path, ""), fields.get(HeaderFields.interface, "")
        return Signal(path, interface, fields.get(HeaderFields.member, ""), body)
    serial = fields.get(HeaderFields.reply_serial, 0)
    if kind is MessageType.error:
        said = body[0] if body and isinstance(body[0], str) else ""
        return BusFailure(serial, fields.get(HeaderFields.error_name, ""), said)
    return BusReply(serial, body) if kind is MessageType.method_return else None
