"""NodeMaintenance: what is done to which hosts, and when; the operator makes NodeTasks of it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from nodemanager.api.maintenance.disruption import OPTIONAL_DURATION, Budget, Disruption
from nodemanager.api.maintenance.health_gates import Health
from nodemanager.api.maintenance.maintenance_status import NodeMaintenanceStatus
from nodemanager.api.maintenance.maintenancewindow import GROUP, VERSION
from nodemanager.api.maintenance.notifications import MAX_TARGETS, Notification
from nodemanager.api.maintenance.operations import MAX_OPERATIONS, LocalReference, Operation
from nodemanager.api.maintenance.series import SERIES_RULES, SeriesSpec
from nodemanager.api.maintenance.windows import WINDOW_RULES, WindowSpec
from nodemanager.kube.hints import DURATION_MAX, PRINTABLE, Rule, meta
from nodemanager.kube.objects import ObjectMeta, Resource, Struct

LABEL_MAINTENANCE: Final = "maintenance.nodemanager/maintenance"
"""Label of the NodeTasks of a maintenance."""
ANNOTATION_VISIT: Final = "maintenance.nodemanager/visit"
"""On a ManagedNode: which maintenance works on it, and its progress (`fleet.maintenance.claims`)."""
ANNOTATION_TOKEN: Final = "maintenance.nodemanager/token"  # noqa: S105 - a number, and no secret
"""On a ManagedNode: the highest fencing token that was taken for a task of it; it stays when visits end."""
ANNOTATION_RETRY: Final = "maintenance.nodemanager/retry"
ANNOTATION_ABORT: Final = "maintenance.nodemanager/abort"
"""On a NodeMaintenance, with the id of a run: have it go on in spite of failures, or end it."""
ANNOTATION_PREVIEW: Final = "maintenance.nodemanager/preview"
"""On a NodeMaintenance: the hash of a plan and the id of a request to ask hosts what its upgrades would do.
It is taken off when they are. As a label of NodeTasks: which request they answer."""
FINALIZER: Final = "maintenance.nodemanager/restore"
DEFAULT_BACKOFF: Final = 0
DEFAULT_DEADLINE: Final = 7200
DEFAULT_STOP_AFTER: Final = 1
DEFAULT_HISTORY: Final = 3


class Approval(Struct):
    """Whether somebody has to say yes before a run begins."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.differentUser) || !self.differentUser || (has(self.required) && self.required)",
            "goes with required: true only",
            ".differentUser",
        ),
    )

    required: Annotated[
        bool, meta("A run begins only once a MaintenanceApproval names the hash of its plan.")
    ] = False
    different_user: Annotated[
        bool,
        meta("And it must be of somebody else than requester, who changed the maintenance last."),
    ] = False
    requester: Annotated[
        str,
        meta(
            "With differentUser: name of the user who writes this. Who changes anything but paused writes "
            "another.",
            pattern=PRINTABLE,
            max_length=256,
        ),
    ] = ""


class NodeMaintenanceSpec(Struct):
    """What is done (operations), to which hosts (series), and when (window)."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.window) != has(self.windowRef)",
            "must have either window or windowRef; for at all times, write window: {always: true}",
        ),
        Rule(
            "!(has(self.series) && has(self.seriesRef))",
            "must not have both series and seriesRef",
            ".seriesRef",
        ),
    )

    window: Annotated[WindowSpec | None, meta("When something may be begun.", *WINDOW_RULES)] = None
    window_ref: Annotated[LocalReference | None, meta("The MaintenanceWindow that says so.", atomic=True)] = (
        None
    )
    series: Annotated[
        SeriesSpec | None, meta("Which hosts, and in which order; omitted: all hosts.", *SERIES_RULES)
    ] = None
    series_ref: Annotated[LocalReference | None, meta("The NodeSeries that says so.", atomic=True)] = None
    operations: Annotated[
        list[Operation],
        meta(
            "What is done. All that is due for a host is one visit: one drain, one task, one reboot.",
            list_map_keys=("name",),
            min_items=1,
            max_items=MAX_OPERATIONS,
            required=True,
        ),
    ] = []
    budget: Annotated[Budget | None, meta("How many hosts may be unavailable at once; default 1.")] = None
    parallelism: Annotated[
        int | None,
        meta(
            "How many hosts this maintenance works on at once, at most; omitted: as many as budget allows.",
            minimum=1,
            maximum=10000,
        ),
    ] = None
    backoff_limit: Annotated[
        int,
        meta(
            f"How often a host is tried again before it counts as failed; default {DEFAULT_BACKOFF}.",
            minimum=0,
            maximum=100,
        ),
    ] = DEFAULT_BACKOFF
    active_deadline_seconds: Annotated[
        int | None,
        meta(
            f"How long the visit of one host may take before it counts as failed; default "
            f"{DEFAULT_DEADLINE}.",
            minimum=60,
            maximum=604800,
        ),
    ] = None
    stop_after: Annotated[
        int | None,
        meta(
            f"How many hosts of a run may fail before it is stopped; default {DEFAULT_STOP_AFTER}. It is "
            f"never off.",
            minimum=1,
            maximum=10000,
        ),
    ] = None
    disruption: Annotated[
        Disruption | None, meta("What happens to the Kubernetes Node of a host meanwhile.")
    ] = None
    health: Annotated[Health | None, meta("What must hold before and after.")] = None
    soak: Annotated[
        str,
        meta(
            "How long a host must stay healthy before it counts as done and the next one may begin, such "
            "as 5m.",
            OPTIONAL_DURATION,
            max_length=DURATION_MAX,
        ),
    ] = ""
    approval: Annotated[Approval | None, meta("Whether somebody has to say yes.")] = None
    paused: Annotated[bool, meta("Nothing is begun; hosts that are being worked on are finished.")] = False
    notify: Annotated[
        list[Notification], meta("Who is told.", list_map_keys=("name",), max_items=MAX_TARGETS)
    ] = []
    ttl_seconds_after_finished: Annotated[
        int | None,
        meta(
            "How long the NodeTasks of a run are kept after its end; omitted: a day. A maintenance whose "
            "operations are all one-shot, and that has ended, is deleted itself after that time, as a Job "
            "is; omitted: it stays. Omit it where a tool applies it again and again: made anew, it is done "
            "anew.",
            minimum=0,
            maximum=31536000,
        ),
    ] = None
    successful_runs_history_limit: Annotated[
        int | None,
        meta(
            f"How many runs that went well the status remembers; default {DEFAULT_HISTORY}.",
            minimum=0,
            maximum=10,
        ),
    ] = None
    failed_runs_history_limit: Annotated[
        int | None,
        meta(
            f"How many runs that failed the status remembers; default {DEFAULT_HISTORY}.",
            minimum=0,
            maximum=10,
        ),
    ] = None


class NodeMaintenance(Struct):
    """What is done to which hosts, and when."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[NodeMaintenanceSpec, meta("What, where and when.")] = NodeMaintenanceSpec()
    status: Annotated[NodeMaintenanceStatus, meta("How far it is.")] = NodeMaintenanceStatus()


NODE_MAINTENANCES: Final = Resource(GROUP, VERSION, "NodeMaintenance", "nodemaintenances", NodeMaintenance)
