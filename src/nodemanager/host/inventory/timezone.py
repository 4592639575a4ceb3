"""The time zone of the host with its clock changes, for schedules."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Final

from nodemanager.host.files.tree import Tree
from nodemanager.host.state import state_files

LOCALTIME: Final = "/etc/localtime"
MAX_BYTES: Final = 1024 * 1024


def local_zone(environ: Mapping[str, str] = os.environ, localtime: str = LOCALTIME) -> tzinfo:
    """Return the zone that TZ names, else that of /etc/localtime, else UTC; read anew each time."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # only hosts with a schedule need it

    if name := environ.get("TZ", "").removeprefix(":"):
        try:
            return _from_file(name) if name.startswith("/") else ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass  # as the C library does: a TZ that names no zone we have is not ours to judge
    try:
        return _from_file(localtime)
    except (ValueError, OSError):
        return UTC


def _from_file(path: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    with Path(path).open("rb") as file:
        return ZoneInfo.from_file(file, key=path)


def zone_of(tree: Tree) -> tzinfo:
    """Return the zone of the host below a root."""
    if tree.root == "/":
        return local_zone()
    from zoneinfo import ZoneInfo

    try:
        data = state_files.read_following(tree, LOCALTIME, MAX_BYTES)
        return UTC if data is None else ZoneInfo.from_file(io.BytesIO(data), key=LOCALTIME)
    except (ValueError, OSError):
        return UTC
    finally:
        tree.forget()
