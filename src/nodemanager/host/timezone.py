"""The time zone of the host, with its clock changes: what schedules are read in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Final

LOCALTIME: Final = "/etc/localtime"


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
