"""Connections that end without a goodbye."""

from __future__ import annotations

import asyncio
import contextlib


def abort(transport: asyncio.WriteTransport) -> None:
    """Close a connection at once. One of TLS that was closed twice knows no way to, up to Python 3.11.2."""
    with contextlib.suppress(AttributeError):
        transport.abort()


def cut(writer: asyncio.StreamWriter) -> None:
    """Close the connection of a writer at once."""
    abort(writer.transport)


def close(writer: asyncio.StreamWriter) -> None:
    """Close a connection, unless somebody has: see above."""
    if not writer.is_closing():
        writer.close()
