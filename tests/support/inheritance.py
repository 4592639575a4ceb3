"""What a program has from whoever starts it, besides what it is told.

Whoever changes that in this process changes all programs that are started later.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_LINES: Final = ("Umask", "SigBlk", "SigIgn", "Uid", "Gid", "Groups", "Cap")
"""Of /proc/PID/status."""


def of_children() -> dict[str, str]:
    """Return by name what a program would have that this thread started now."""
    status = Path("/proc/thread-self/status").read_text().splitlines()
    told = dict(line.split(":", 1) for line in status if line.startswith(_LINES))
    _, *limits = Path("/proc/self/limits").read_text().splitlines()
    told |= {line[:26].strip(): line[26:] for line in limits}
    told["priority"] = str(os.getpriority(os.PRIO_PROCESS, 0))
    told["processors"] = str(sorted(os.sched_getaffinity(0)))
    return {name: " ".join(value.split()) for name, value in told.items()}
