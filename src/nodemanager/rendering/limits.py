"""What rendering may cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RenderLimits:
    """Bounds of one process that renders; those of templates themselves are in `plan.templates.budget`."""

    cpu: int = 5
    """Seconds of processor time for one template: a thousand times what a large one takes."""
    wall: float = 20.0
    """Seconds that one template may take on a machine that is busy with other things."""
    owner: float = 30.0
    """Seconds for all templates of one owner in one request, so that none holds up the others for long."""
    memory: int = 256 * MIB
    """Bytes on top of what the process has before the first template; more where the data is large."""
    start: float = 20.0
    """Seconds for a process to start."""
    idle: float = 15.0
    """Seconds after which an idle process ends, so that a host at rest pays nothing for it."""
    quarantine: float = 600.0
    """Seconds for which a template that met a limit is not tried again, with any data."""


FILES: Final = RenderLimits()
"""For the contents of files."""
NAMES: Final = RenderLimits(cpu=1, wall=10.0, owner=10.0, memory=64 * MIB)
"""For names, such as those of Secrets: they are short, many hosts wait for one operator, and its container
has no more than 256 MiB."""
