"""Writes the audit log: a signed record for each decision, and for each change of a spec."""

from __future__ import annotations

import dataclasses
import functools
from typing import Final

from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS, KEY_SECRET
from nodemanager.api.audit.auditsegment import AUDIT_SEGMENTS
from nodemanager.api.kind_parts import READ
from nodemanager.api.rights.operator_rights import Right
from nodemanager.controllers.audit import building, stamping
from nodemanager.controllers.audit.streaming import Webhook
from nodemanager.controllers.registration import (
    REPORTING,
    THE_ONE,
    PartRegistration,
    Periodic,
    Registration,
    WatchedKind,
    nobody,
)
from nodemanager.fleet.audit import observed
from nodemanager.kube.core import SECRETS

REGISTRATION: Final = Registration(
    name="audit",
    kind=None,
    # Optional: if kinds or rights are older than the operator, everything but the log works.
    watches=tuple(WatchedKind(one, building.soon, optional=True) for one in observed.kinds_seen()),
    build=building.build,
    periodic=(Periodic(THE_ONE, building.LOOK_SECONDS),),
    rights=(
        *(Right(one, READ) for one in observed.kinds_seen()),
        Right(AUDIT_SEGMENTS, ("get", "list", "create", "patch", "delete")),
        Right(AUDIT_SEGMENTS, ("patch",), "status"),
        Right(AUDIT_CHECKPOINTS, (*READ, "create", "patch")),
        Right(AUDIT_CHECKPOINTS, ("patch",), "status"),
        REPORTING,
        Right(SECRETS, ("get", "create")),
        Right(SECRETS, ("patch",), names=(KEY_SECRET,)),
        *stamping.RIGHTS,
    ),
    timeout=300.0,
)
WITH_EDGE: Final = dataclasses.replace(
    REGISTRATION,
    watches=tuple(WatchedKind(one, building.soon, optional=True) for one in observed.kinds_seen(edge=True)),
    build=functools.partial(building.build, edge=True),
)
"""The same with edge sites: their kinds are recorded, too, and the operator may read them then."""
WEBHOOK: Final = PartRegistration(
    name="audit webhook",
    watches=(WatchedKind(AUDIT_CHECKPOINTS, nobody, optional=True),),
    build=Webhook,
    rights=(
        Right(AUDIT_SEGMENTS, ("get", "list")),
        Right(AUDIT_CHECKPOINTS, READ),
        Right(AUDIT_CHECKPOINTS, ("patch",), "status"),
        Right(SECRETS, ("get",)),
    ),
)
