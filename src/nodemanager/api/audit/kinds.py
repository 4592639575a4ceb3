"""The entries of the kinds of the audit log in the registry of kinds."""

from __future__ import annotations

from typing import Final

from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS, CURRENT, HOST_CHAINS, INTACT
from nodemanager.api.audit.auditsegment import AUDIT_SEGMENTS
from nodemanager.api.kind_parts import AGE, READ, KindColumn, KindEntry, KindRight, condition

_SEGMENT: Final = KindEntry(
    resource=AUDIT_SEGMENTS,
    short_names=("aseg",),
    columns=(
        KindColumn("First", ".spec.first", "Sequence number of its first record.", "integer"),
        KindColumn("Sealed", ".spec.sealed.at", "Since when nothing more is added.", "date"),
        KindColumn("Exported", ".status.exported.at", "Since when a copy is elsewhere.", "date"),
        AGE,
        KindColumn("Digest", ".spec.sealed.digest", "SHA-256, which the next segment names.", priority=1),
    ),
    page="reference/auditsegment.md",
    hosts=(),
    # Policies let it append, seal, say that there is a copy, and delete what has one and is old.
    operator=(KindRight(("create", "patch", "delete")), KindRight(("patch",), "status")),
    viewers=(KindRight(READ),),
    editors=(),
)

_CHECKPOINT: Final = KindEntry(
    resource=AUDIT_CHECKPOINTS,
    short_names=("acp",),
    columns=(
        KindColumn("Records", ".spec.size", "How many records are signed.", "integer"),
        KindColumn("Intact", condition(INTACT), "Whether nothing was changed."),
        KindColumn("Current", condition(CURRENT), "Whether nothing is missing."),
        KindColumn("Hosts", condition(HOST_CHAINS), "Whether chains of hosts go on from what they told."),
        KindColumn("Workflows", ".status.workflows", "Whether something new may begin."),
        AGE,
        KindColumn("Message", condition(INTACT, "message"), "What is wrong.", priority=1),
    ),
    page="reference/auditcheckpoint.md",
    hosts=(),
    operator=(KindRight(("create", "patch")), KindRight(("patch",), "status")),
    viewers=(KindRight(READ),),
    editors=(),
)

KINDS: Final = (_CHECKPOINT, _SEGMENT)
