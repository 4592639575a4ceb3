"""Fencing tokens tell which of two tasks for one host is newer.

An annotation of the host has the last one.
"""

from __future__ import annotations

from datetime import datetime

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_TOKEN


def token_of(host: ManagedNode, task: str) -> int:
    """Return the fencing token that was taken for a task; 0 = none was."""
    number, _, name = host.metadata.annotations.get(ANNOTATION_TOKEN, "").partition(" ")
    return int(number) if number.isdecimal() and name == task else 0


def newer_token(host: ManagedNode, task: str, now: datetime) -> str:
    """Return the token that a task takes on a host, with its name.

    It is above all earlier ones, even if the ManagedNode was made anew and has lost them, because it
    follows the clock.
    """
    number, _, _ = host.metadata.annotations.get(ANNOTATION_TOKEN, "").partition(" ")
    last = int(number) if number.isdecimal() else 0
    return f"{max(last + 1, int(now.timestamp()))} {task}"
