"""AuditCheckpoint: how far the audit log is, signed by the operator, and whether it is sound."""

from __future__ import annotations

from typing import Annotated, Final

from nodemanager.api.audit.actors import GROUP
from nodemanager.api.audit.auditsegment import DIGEST, NOTE_MAX, VERSION
from nodemanager.kube.conditions import Condition
from nodemanager.kube.hints import PRINTABLE, Rule, meta
from nodemanager.kube.objects import ObjectMeta, Resource, Struct

NAME: Final = "log"
"""The one object: the log of a namespace."""
KEY_SECRET: Final = "nodemanager-audit-key"  # noqa: S105 - a name
"""The Secret with the key that signs. Nobody but the operator reads it: no host may refer to it."""
INTACT: Final = "Intact"
"""Condition type: all records are there as they were written, and the checkpoint is ours."""
CURRENT: Final = "Current"
"""Condition type: what was observed is recorded and signed, without delay."""
HOST_CHAINS: Final = "HostChainsKept"
"""Condition type: the own chains of hosts go on from what they told before."""
STOP: Final = "Stop"
CONTINUE: Final = "Continue"
MAX_KEYS: Final = 32
MAX_FAILURE: Final = 512


class AuditCheckpointSpec(Struct):
    """How far the log is."""

    size: Annotated[int, meta("How many records are signed.", required=True, minimum=0)] = 0
    root: Annotated[
        str,
        meta(
            "Root of the tree of them, in hexadecimal digits.", required=True, pattern=DIGEST, max_length=64
        ),
    ] = ""
    note: Annotated[
        str,
        meta(
            "The same as a signed note (C2SP tlog-checkpoint).",
            required=True,
            min_length=1,
            max_length=NOTE_MAX,
        ),
    ] = ""
    keys: Annotated[
        list[Annotated[str, meta("A public key, as name+hash+base64.", pattern=PRINTABLE, max_length=512)]],
        meta(
            "The keys that have signed, the present one last. Compare them with what you noted.",
            max_items=MAX_KEYS,
        ),
    ] = []


class WebhookState(Struct):
    """How far a receiver was sent the records."""

    delivered: Annotated[
        int, meta("How many records were delivered; the next one has this number.", required=True, minimum=0)
    ] = 0
    at: Annotated[str, meta("When the last ones were.", format="date-time", max_length=64)] = ""
    failure: Annotated[str, meta("Why the next ones are not.", pattern=PRINTABLE, max_length=MAX_FAILURE)] = (
        ""
    )


class AuditCheckpointStatus(Struct):
    """Whether the log is sound."""

    workflows: Annotated[
        str,
        meta(
            "Whether maintenances and rollouts may begin something new: Stop while the log is broken"
            " or behind, unless the operator is told otherwise.",
            enum=(CONTINUE, STOP),
        ),
    ] = ""
    segments: Annotated[int, meta("How many AuditSegments there are.", minimum=0)] = 0
    bytes: Annotated[int, meta("How many bytes of records are in them.", minimum=0)] = 0
    webhook: Annotated[
        WebhookState | None, meta("How far a receiver was sent the records, where there is one.")
    ] = None
    conditions: Annotated[
        list[Condition],
        meta("Intact, Current, HostChainsKept and UsersStamped.", list_map_keys=("type",), max_items=8),
    ] = []


class AuditCheckpoint(Struct):
    """How far the audit log is, signed, and whether it is sound."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[
        AuditCheckpointSpec,
        meta(
            "How far the log is.",
            Rule("self.size >= oldSelf.size", "cannot become smaller: a log only grows", ".size"),
            Rule(
                "self.size != oldSelf.size ||"
                " (self.root == oldSelf.root && self.note.startsWith(oldSelf.note))",
                "cannot be changed without new records; only signatures may be added to the note",
                ".note",
            ),
            required=True,
        ),
    ] = AuditCheckpointSpec()
    status: Annotated[AuditCheckpointStatus, meta("Whether it is sound.")] = AuditCheckpointStatus()


AUDIT_CHECKPOINTS: Final = Resource(GROUP, VERSION, "AuditCheckpoint", "auditcheckpoints", AuditCheckpoint)
