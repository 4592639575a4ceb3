"""What LINSTOR, and our backend for it, make of two copies whose DRBD is real: a table for every moment.

The names are those of `tests/cases/edge/drbd84_lab`, and of the lab that they were recorded in.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from nodemanager.api.edge.edgecluster import HEALTHY, UNHEALTHY
from nodemanager.fleet.edge.storage.judging import StorageVerdict


class Seen(NamedTuple):
    """How the storage of the site is at a moment, and what of the words that say why."""

    state: str
    words: tuple[str, ...]
    removable: bool = False
    """Whether the second copy could be deleted without a loss."""


_WELL: Final = "2/2 nodes, 1 volume, 2 copies"
_WAITS: Final = "the disk on node1 is Inconsistent, and does not sync"
MOMENTS: Final = {
    "new": Seen(UNHEALTHY, ("the disk on node0 is Inconsistent, and does not sync", _WAITS)),
    "syncing": Seen(UNHEALTHY, ("the disk on node1 is syncing, ", " % done", "is SyncSource"), True),
    "paused_by_node0": Seen(UNHEALTHY, (_WAITS, "node0 with node1 is PausedSyncS"), True),
    "paused_by_node1": Seen(UNHEALTHY, (_WAITS, "node0 with node1 is PausedSyncS"), True),
    "established": Seen(HEALTHY, (_WELL,), True),
    "corrupt_unnoticed": Seen(HEALTHY, (_WELL,), True),
    "verifying": Seen(HEALTHY, (_WELL,), True),
    # LINSTOR does not say which blocks differ: only hosts do.
    "verify_found_differences": Seen(HEALTHY, (_WELL,), True),
    "disconnected": Seen(UNHEALTHY, ("node0 and node1 are not connected (Connecting)",)),
    "split_brain": Seen(UNHEALTHY, ("both stand alone: split brain is suspected",)),
    "cables_dead": Seen(UNHEALTHY, ("node0 and node1 are not connected (Connecting)",)),
}


def differences(moment: str, verdict: StorageVerdict) -> list[str]:
    """Return where a verdict is not what the table says."""
    wanted = MOMENTS[moment]
    found = [] if verdict.state == wanted.state else [f"{verdict.state} and not {wanted.state}"]
    lacking = [word for word in wanted.words if word not in verdict.text]
    return found + [f"nothing of {word!r}: {verdict.text}" for word in lacking]
