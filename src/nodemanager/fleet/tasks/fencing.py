"""Fencing tokens: of two tasks for one host, which one is newer. An annotation of the host has the last."""

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

    It is above every one before, also if the host was made anew and has forgotten them, which is why it
    follows the clock.
    """
    number, _, _ = host.metadata.annotations.get(ANNOTATION_TOKEN, "").partition(" ")
    last = int(number) if number.isdecimal() else 0
    return f"{max(last + 1, int(now.timestamp()))} {task}"
