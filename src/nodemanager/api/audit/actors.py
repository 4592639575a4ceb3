"""Who changed an object last: read from the stamp of admission, else from managed fields.

`api/rights/stamp_policy.py` has the policy that stamps. A stamp is JSON in an annotation:

    {"user":"alice","groups":["ops","system:authenticated"],"of":2,"generation":7}

`of` tells how many groups there were, as only the first ones are written down. `generation` is that of the
spec with which the user was satisfied: when the spec has another one by now, it was changed past the
policy, and the stamp does not count. Pure, and without any dependency.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

GROUP: Final = "audit.nodemanager"
REQUESTED_BY: Final = f"{GROUP}/requested-by"
"""Annotation: the user who asked for what the object says; only the server writes it."""
CLAIMED_AUTHOR: Final = f"{GROUP}/claimed-author"
"""Annotation: who wrote it in the end, such as the author of a commit, by the word of whoever applied it."""
TOKEN_ISSUED: Final = f"{GROUP}/token-issued"
"""Annotation of the ServiceAccount of a host: until when the newest token for joining is valid, and who had
it issued, according to the command that did."""
TOKENS: Final = "nodemanager-token"
"""Field manager of that command."""
CHANGE: Final = "common.nodemanager/change"
"""Annotation: where a change came from, such as the URL of a commit. A claim."""
CLAIMS: Final = (CLAIMED_AUTHOR, CHANGE)

MAX_USER: Final = 256
MAX_GROUPS: Final = 32
MAX_GROUP: Final = 128
MAX_CLAIM: Final = 256
MAX_CHANGE: Final = 1024
MAX_MANAGER: Final = 128
CUT: Final = "..."
"""What ends a name that was too long."""

ADMISSION: Final = "admission"
"""The user that the API saw."""
FIELD_MANAGER: Final = "fieldManager"
"""The program that wrote the fields, by its own word."""
HOST: Final = "host"
"""A host, by its own word about itself: never found here, but in what hosts report."""
UNKNOWN: Final = "unknown"

_APPROVAL: Final = "MaintenanceApproval"


class Requester(NamedTuple):
    """Who asked for something, and how that is known."""

    name: str = ""
    known: str = UNKNOWN
    """`admission`, `fieldManager` or `unknown`."""
    groups: tuple[str, ...] = ()
    of_groups: int = 0
    """How many groups the user had; more than are here, if there were many."""
    claimed: str = ""
    """The author that the requester names. A claim."""
    change: str = ""
    """Where the change came from. A claim."""
    pinned: str = ""
    """Who asked for the plan, where somebody else has to approve it: the policy for approvals sees to it."""


def who(obj: Mapping[str, Any], *, stamped: bool = True) -> Requester:
    """Return who asked for an object as it is now; `stamped` is whether the stamping policy is in force.

    Without the policy, labels and annotations may have changed since the stamp by an unknown user.
    """
    meta = _mapping(obj.get("metadata"))
    notes = _mapping(meta.get("annotations"))
    found = _stamp(str(notes.get(REQUESTED_BY, "")), meta.get("generation")) if stamped else None
    found = found or _approver(obj) or _writer(meta) or Requester()
    return found._replace(
        claimed=printable(notes.get(CLAIMED_AUTHOR), MAX_CLAIM),
        change=printable(notes.get(CHANGE), MAX_CHANGE),
        pinned=_pinned(obj),
    )


def last_writer(meta: Mapping[str, Any]) -> tuple[str, str]:
    """Return the field manager that wrote the spec last, and when; empty where nothing tells."""
    entries = [
        one
        for one in meta.get("managedFields") or []
        if isinstance(one, Mapping) and "f:spec" in _mapping(one.get("fieldsV1"))
    ]
    last = max(entries, key=lambda one: str(one.get("time", "")), default={})
    return printable(last.get("manager"), MAX_MANAGER), str(last.get("time") or "")


def printable(text: Any, most: int) -> str:
    """Return a foreign text in a printable form."""
    return "".join(one for one in str(text or "") if one.isprintable())[:most]


def _stamp(text: str, generation: Any) -> Requester | None:
    """Return the user in a stamp; None if there is none, or it is about another generation."""
    try:
        stamp = json.loads(text, strict=False)  # names may have characters that JSON wants escaped
    except ValueError:
        return None
    if not isinstance(stamp, dict) or stamp.get("generation") != generation or not stamp.get("user"):
        return None
    groups = stamp.get("groups")
    named = tuple(printable(one, MAX_GROUP + len(CUT)) for one in groups) if isinstance(groups, list) else ()
    count = stamp.get("of")
    return Requester(
        printable(stamp["user"], MAX_USER + len(CUT)),
        ADMISSION,
        named[:MAX_GROUPS],
        count if isinstance(count, int) else len(named),
    )


def _approver(obj: Mapping[str, Any]) -> Requester | None:
    """Return who approves: the policy for approvals accepts only the user's own name."""
    if obj.get("kind") != _APPROVAL:
        return None
    name = printable(_mapping(obj.get("spec")).get("approver"), MAX_USER)
    return Requester(name, ADMISSION) if name else None


def _writer(meta: Mapping[str, Any]) -> Requester | None:
    manager, _ = last_writer(meta)
    return Requester(manager, FIELD_MANAGER) if manager else None


def _pinned(obj: Mapping[str, Any]) -> str:
    """Return the requester that a maintenance or a rollout names, where another user has to approve."""
    spec = _mapping(obj.get("spec"))
    for part in (spec, _mapping(spec.get("rollout"))):
        approval = _mapping(part.get("approval"))
        if approval.get("differentUser") is True:
            return printable(approval.get("requester"), MAX_USER)
    return ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
