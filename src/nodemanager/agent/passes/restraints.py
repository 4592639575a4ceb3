"""What forbids passes and repairs to change something now."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class Restraints:
    """Holds of the whole host, and windows of single ConfigSets."""

    may_act: Callable[[], bool] = lambda: True
    """Whether the host may be changed now: asked before each stage and each repair."""
    shut: Callable[[], AbstractSet[str]] = frozenset[str]
    """ConfigSets whose window is shut: read when a pass or a repair begins."""
