"""The entries of the kinds of maintenance in the registry of kinds."""

from __future__ import annotations

from typing import Final

from nodemanager.api.kind_parts import AGE, READ, WRITE, KindColumn, KindEntry, KindRight, condition
from nodemanager.api.maintenance.maintenance_status import VALID as MAINTENANCE_VALID
from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS
from nodemanager.api.maintenance.maintenancewindow import MAINTENANCE_WINDOWS, VALID
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES
from nodemanager.api.maintenance.nodeoperationtemplate import NODE_OPERATION_TEMPLATES
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
    operator=(
        KindRight(("create", "delete", "patch")),  # the policy keeps it to one annotation
        KindRight(("patch",), "status"),
    ),
    viewers=(KindRight(READ),),
    editors=(),  # it is made by the operator alone, and changed by nobody
)

_MAINTENANCE: Final = KindEntry(
    resource=NODE_MAINTENANCES,
    # Others have a NodeMaintenance, too, and call it nm.
    short_names=("nmaint",),
    columns=(
        KindColumn("Phase", ".status.phase", "Where it is."),
        KindColumn("Window", ".status.window.text", "Whether hosts may be begun with now, or from when on."),
        KindColumn("Hosts", ".status.hosts.text", "How many are done, of how many."),
        KindColumn("Failed", ".status.hosts.failed", "How many of them failed.", "integer"),
        KindColumn("Next", ".status.nextRun", "When something is due next."),
        AGE,
        KindColumn("Valid", condition(MAINTENANCE_VALID), "Whether all that it needs is there.", priority=1),
        KindColumn("Plan", ".status.plan.hash", "Hash of the plan, for an approval.", priority=1),
    ),
    page="reference/nodemaintenance.md",
    hosts=(),
    # Finalizer, and the end of its time; how far it is.
    operator=(KindRight(("patch", "delete")), KindRight(("patch",), "status")),
    viewers=(KindRight(READ),),
    editors=(KindRight(WRITE),),
)

_TEMPLATE: Final = KindEntry(
    resource=NODE_OPERATION_TEMPLATES,
    short_names=("notmpl",),
    columns=(
        KindColumn("Type", ".spec.type", "What type an operation with it usually has."),
        KindColumn("Version", ".spec.version", "Version of the template."),
        AGE,
        KindColumn("Description", ".spec.description", "What it does.", priority=1),
    ),
    page="reference/nodeoperationtemplate.md",
    hosts=(),
    operator=(),
    viewers=(KindRight(READ),),
    editors=(KindRight(WRITE),),
)

_APPROVAL: Final = KindEntry(
    resource=MAINTENANCE_APPROVALS,
    short_names=("mapproval",),
    columns=(
        KindColumn("Maintenance", ".spec.maintenance", "Which maintenance."),
        KindColumn("ConfigSet", ".spec.configSet", "Which ConfigSet."),
        KindColumn("Approver", ".spec.approver", "Who says yes."),
        AGE,
        KindColumn("Plan", ".spec.planHash", "Hash of the plan.", priority=1),
    ),
    page="reference/maintenanceapproval.md",
    hosts=(),
    operator=(),
    viewers=(KindRight(READ),),
    editors=(KindRight(WRITE),),
)

KINDS: Final = (_MAINTENANCE, _WINDOW, _SERIES, _TEMPLATE, _APPROVAL, _TASK)
