"""NodeTask: work that one host should do once, and its result.

The operator writes it and never changes it; the agent of the one host that it names reports on it. It is the
only way in which the operator acts on a host.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import msgspec

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.maintenancewindow import GROUP, VERSION
from nodemanager.api.maintenance.task_previews import TaskPreview
from nodemanager.api.maintenance.task_steps import TaskStep
from nodemanager.kube import object_names, times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.hints import NAME_MAX, PRINTABLE, TEXT, Rule, meta
from nodemanager.kube.objects import ObjectMeta, Resource, Struct

NODE: Final = f"{GROUP}/node"
"""Label: the host that a task is for; cut, where its name is too long for a label."""
MAINTENANCE: Final = f"{GROUP}/maintenance"
"""Label: the maintenance that a task is part of."""
RUN: Final = f"{GROUP}/run"
"""Label: the run of it."""
VISIT: Final = f"{GROUP}/visit"
"""Annotation of a ManagedNode: the operator's claim on the host, while it is being worked on."""
UPGRADES: Final = f"{GROUP}/upgrades"
"""Annotation of a ManagedNode: until when the operator begins the upgrades of the host, which asks it to."""
NOT_DONE: Final = f"{GROUP}/not-done"
"""Annotation: why the visit of the host counts as failed although the task succeeded, such as NotProven."""
ENDED: Final = ("Succeeded", "Failed", "Undone", "Halted", "Expired", "Refused")
"""Phases after which nothing comes."""
PHASES: Final = ("Pending", "Running", *ENDED)
HOST_GONE: Final = "HostGone"
"""Reason of COMPLETE: the operator ended it, for its host is gone; what the host says counts all the same."""
COMPLETE: Final = "Complete"
"""Condition type: True when all was done, False before and otherwise; its reason is the phase, or why."""
LABEL_MAX: Final = 63
MAX_STEPS: Final = 64
CUT: Final = "..."
"""Stands for facts beyond the limit of a report."""
MAX_TTL: Final = 366 * 86400
"""A year, which may be a leap year."""
OUTPUT_MAX: Final = 4096
"""How much of what a step says is kept in its status."""


def node_label(host: str) -> str:
    """Return the value of the label NODE of the tasks for a host."""
    return host[:LABEL_MAX].rstrip("-.")


class TaskReason(Struct):
    """Why there is a task: who wanted it, and by which plan."""

    kind: Annotated[str, meta("Kind of the object that wanted it.", max_length=63)] = ""
    name: Annotated[str, meta("Its name.", max_length=NAME_MAX)] = ""
    uid: Annotated[str, meta("Its uid.", max_length=63)] = ""
    generation: Annotated[int, meta("Its generation.", minimum=0)] = 0
    plan_hash: Annotated[str, meta("Hash of the plan that was approved.", max_length=128)] = ""


class NodeTaskSpec(Struct):
    """What one host shall do once, step by step."""

    node_name: Annotated[
        str,
        meta("Name of the ManagedNode whose agent does it.", pattern=f"^{object_names.FORM}$", required=True,
             min_length=1, max_length=NAME_MAX),
    ] = ""  # fmt: skip
    steps: Annotated[
        list[TaskStep],
        meta("What is done, in this order.", list_map_keys=("name",), min_items=1, max_items=MAX_STEPS,
             required=True),
    ] = []  # fmt: skip
    deadline: Annotated[
        str, meta("No step begins from this moment on.", format="date-time", required=True, max_length=64)
    ] = ""
    not_before: Annotated[
        str | None, meta("It does not begin before this moment.", format="date-time", max_length=64)
    ] = None
    not_after: Annotated[
        str | None,
        meta(
            "It does not begin from this moment on, such as the end of a window; one that has begun goes on"
            " until the deadline.",
            format="date-time",
            max_length=64,
        ),
    ] = None
    fencing_token: Annotated[
        int,
        meta(
            "Higher than in every earlier task for this host: an older one is refused.",
            required=True,
            minimum=1,
        ),
    ] = 0
    boot_id: Annotated[
        str,
        meta("The boot in which it was planned; in another one it is refused. Empty: any.", max_length=64),
    ] = msgspec.field(name="bootID", default="")
    reason: Annotated[TaskReason | None, meta("Why there is this task.", atomic=True)] = None
    ttl_seconds_after_finished: Annotated[
        int | None,
        meta(
            "How long the operator keeps it after it ended; default 604800, a week. A task of a run that"
            " goes on is kept longer.",
            minimum=0,
            maximum=MAX_TTL,
        ),
    ] = None


class TaskClaim(Struct):
    """Which agent took a task."""

    agent: Annotated[str, meta("Which process of the agent: anew with every start.", max_length=64)] = ""
    boot_id: Annotated[str, meta("The boot in which it did.", max_length=64)] = msgspec.field(
        name="bootID", default=""
    )
    time: Annotated[str | None, meta("When it did.", format="date-time")] = None
    fencing_token: Annotated[int, meta("The fencing token of the task.", minimum=0)] = 0


class TaskStepStatus(Struct):
    """What became of one step."""

    name: Annotated[str, meta("Its name.", required=True, min_length=1, max_length=63)] = ""
    phase: Annotated[
        str,
        meta("Where it is.",
             enum=("Pending", "Running", "Succeeded", "Failed", "Undoing", "Undone", "UndoFailed")),
    ] = ""  # fmt: skip
    attempts: Annotated[int, meta("How often it was tried.", minimum=0)] = 0
    started_at: Annotated[str | None, meta("When the last try began.", format="date-time")] = None
    finished_at: Annotated[str | None, meta("When it ended.", format="date-time")] = None
    exit_code: Annotated[int | None, meta("How the program ended.")] = None
    changed: Annotated[bool, meta("Whether it changed the host.")] = False
    message: Annotated[str, meta("Why it failed.", pattern=TEXT, max_length=1024)] = ""
    output: Annotated[
        str, meta("The end of what it said, without secrets.", pattern=TEXT, max_length=OUTPUT_MAX)
    ] = ""
    evidence: Annotated[
        dict[str, Annotated[str, meta("A fact.", pattern=PRINTABLE, max_length=256)]],
        meta("What proves it, such as boot IDs and versions before and after.", max_properties=128),
    ] = {}
    preview: Annotated[TaskPreview | None, meta("What a proposal would do to the host.", atomic=True)] = None


class NodeTaskStatus(Struct):
    """What became of the task; written by the agent."""

    observed_generation: Annotated[int, meta("The metadata.generation this status is about.", minimum=0)] = 0
    phase: Annotated[
        str,
        meta("Where it is; empty: nobody has taken it.", enum=PHASES),
    ] = ""
    message: Annotated[str, meta("Why it ended so.", pattern=TEXT, max_length=1024)] = ""
    step: Annotated[str, meta("Name of the step that it is at, or ended with.", max_length=63)] = ""
    finished_at: Annotated[str | None, meta("When it ended.", format="date-time")] = None
    claim: Annotated[TaskClaim | None, meta("Which agent took it.", atomic=True)] = None
    steps: Annotated[
        list[TaskStepStatus],
        meta("What became of each step.", list_map_keys=("name",), max_items=MAX_STEPS),
    ] = []
    conditions: Annotated[
        list[Condition], meta("What is true of it.", list_map_keys=("type",), max_items=16)
    ] = []


def upgrade_slot(spec: NodeTaskSpec) -> datetime | None:
    """Return the slot of ManagedNode.spec.upgrade that a task is for; None = it is for something else."""
    if spec.reason is None or spec.reason.kind != MANAGED_NODES.kind:
        return None
    return times.parse(spec.not_before)


def is_ended(status: NodeTaskStatus) -> bool:
    """Tell whether nothing more becomes of a task."""
    return status.phase in ENDED


class NodeTask(Struct):
    """Something that one host shall do once, and what became of it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[
        NodeTaskSpec,
        meta(
            "What shall be done.",
            Rule("self == oldSelf", "cannot be changed: a task is done once, as it is"),
            Rule(
                "!has(self.notBefore) || self.notBefore < self.deadline",
                "must be before deadline",
                ".notBefore",
            ),
            Rule(
                "!has(self.notAfter) || !has(self.notBefore) || self.notBefore <= self.notAfter",
                "must not be before notBefore",
                ".notAfter",
            ),
            required=True,
        ),
    ] = NodeTaskSpec()
    status: Annotated[NodeTaskStatus, meta("What became of it.")] = NodeTaskStatus()


NODE_TASKS: Final = Resource(GROUP, VERSION, "NodeTask", "nodetasks", NodeTask)
