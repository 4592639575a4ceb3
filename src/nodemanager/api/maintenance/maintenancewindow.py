"""MaintenanceWindow: when maintenance may happen, under a name that several objects can refer to."""

from __future__ import annotations

from typing import Annotated, Final

from nodemanager.api.maintenance.windows import WINDOW_RULES, WindowSpec
from nodemanager.kube.conditions import Condition
from nodemanager.kube.hints import meta
from nodemanager.kube.objects import ObjectMeta, Resource, Struct

GROUP: Final = "maintenance.nodemanager"
VERSION: Final = "v1alpha1"
VALID: Final = "Valid"
"""Condition type: all of the window could be read; one that could not is shut."""


class Opening(Struct):
    """A time in which the window is open."""

    start: Annotated[str, meta("When it opens.", format="date-time")] = ""
    end: Annotated[str | None, meta("When it closes; absent: not in sight.", format="date-time")] = None
    local: Annotated[str, meta("The same as clocks there show it.")] = ""
    remark: Annotated[str, meta("What a change of the clock does to it.")] = ""


class MaintenanceWindowStatus(Struct):
    """Whether it is open; written by the operator."""

    observed_generation: Annotated[int, meta("The metadata.generation this status is about.", minimum=0)] = 0
    open: Annotated[bool, meta("Whether it is open now.")] = False
    closes_at: Annotated[
        str | None, meta("When it closes, if it is open and that is in sight.", format="date-time")
    ] = None
    opens_at: Annotated[str | None, meta("When it opens next.", format="date-time")] = None
    next: Annotated[list[Opening], meta("The next openings, five at most.", max_items=5)] = []
    conditions: Annotated[
        list[Condition],
        meta("Valid: whether all of it could be read.", list_map_keys=("type",), max_items=16),
    ] = []


class MaintenanceWindow(Struct):
    """When maintenance may happen: schedules, and what is excluded from them."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[WindowSpec, meta("When it is open.", *WINDOW_RULES)] = WindowSpec()
    status: Annotated[MaintenanceWindowStatus, meta("Whether it is open.")] = MaintenanceWindowStatus()


MAINTENANCE_WINDOWS: Final = Resource(
    GROUP, VERSION, "MaintenanceWindow", "maintenancewindows", MaintenanceWindow
)
