"""The entries of the kinds of maintenance in the registry of kinds."""

from __future__ import annotations

from typing import Final

from nodemanager.api.kind_parts import AGE, READ, WRITE, KindColumn, KindEntry, KindRight, condition
from nodemanager.api.maintenance.maintenancewindow import MAINTENANCE_WINDOWS, VALID
from nodemanager.api.maintenance.nodeseries import NODE_SERIES, RESOLVED
from nodemanager.api.maintenance.nodetask import NODE_TASKS

_WINDOW: Final = KindEntry(
    resource=MAINTENANCE_WINDOWS,
    short_names=("mw",),
    columns=(
        KindColumn("Open", ".status.open", "Whether maintenance may happen now.", "boolean"),
        KindColumn("Closes", ".status.closesAt", "When it closes, if it is open."),
        KindColumn("Opens", ".status.opensAt", "When it opens next."),
        AGE,
        KindColumn("Valid", condition(VALID), "Whether all of it could be read.", priority=1),
        KindColumn("Message", condition(VALID, "message"), "Why it could not.", priority=1),
    ),
    page="reference/maintenancewindow.md",
    hosts=(),
    operator=(KindRight(("patch",), "status"),),
    viewers=(KindRight(READ),),
    editors=(KindRight(WRITE),),
)

_SERIES: Final = KindEntry(
    resource=NODE_SERIES,
    short_names=("nser",),
    columns=(
        KindColumn("Hosts", ".status.hosts", "How many hosts are meant.", "integer"),
        KindColumn("Silent", ".status.silent", "How many of them are silent.", "integer"),
        KindColumn("Resolved", condition(RESOLVED), "Whether all that are named exist."),
        AGE,
        KindColumn("Message", condition(RESOLVED, "message"), "Who does not.", priority=1),
    ),
    page="reference/nodeseries.md",
    hosts=(),
    operator=(KindRight(("patch",), "status"),),
    viewers=(KindRight(READ),),
    editors=(KindRight(WRITE),),
)

_TASK: Final = KindEntry(
    resource=NODE_TASKS,
    short_names=("ntask",),
    columns=(
        KindColumn("Node", ".spec.nodeName", "The host that shall do it."),
        KindColumn("Phase", ".status.phase", "Where it is."),
        KindColumn("Step", ".status.step", "The step that it is at, or ended with."),
        KindColumn("Owner", ".spec.reason.name", "Name of the object that wanted it."),
        AGE,
        KindColumn("Deadline", ".spec.deadline", "No step begins from then on.", priority=1),
        KindColumn("Finished", ".status.finishedAt", "When it ended.", "date", 1),
        KindColumn("Message", ".status.message", "Why it ended so.", priority=1),
    ),
    page="reference/nodetask.md",
    hosts=(
        KindRight(READ),
        KindRight(("patch",), "status"),  # RBAC cannot name them: the policy keeps a host to its own
    ),
    operator=(KindRight(("delete",)), KindRight(("patch",), "status")),
    viewers=(KindRight(READ),),
    editors=(),  # it is made by the operator alone, and changed by nobody
)

KINDS: Final = (_WINDOW, _SERIES, _TASK)
