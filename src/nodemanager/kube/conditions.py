"""Conditions: what is true of an object right now, and since when.

The functions are pure: they take a list of conditions and return another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from nodemanager.kube.hints import ASCII, TEXT, meta
from nodemanager.kube.objects import Struct

TRUE = "True"
FALSE = "False"
UNKNOWN = "Unknown"

READY = "Ready"
"""Condition type: everything that is declared holds."""


class Condition(Struct, omit_defaults=False):
    """One aspect of the state of an object, as in all of Kubernetes."""

    # Written with its defaults: the schema requires an empty message to be there.

    type: Annotated[
        str, meta("What is judged, in CamelCase.", required=True, pattern=ASCII, max_length=316)
    ] = ""
    status: Annotated[
        str, meta("Whether it holds: True, False or Unknown.", required=True, enum=(TRUE, FALSE, UNKNOWN))
    ] = UNKNOWN
    reason: Annotated[
        str,
        meta(
            "Why, as one CamelCase word that programs may compare.",
            required=True,
            pattern=ASCII,
            max_length=1024,
        ),
    ] = ""
    message: Annotated[
        str, meta("Why, for people; may be empty.", required=True, pattern=TEXT, max_length=32768)
    ] = ""
    last_transition_time: Annotated[
        str,
        meta("When the status last changed from one value to another.", required=True, format="date-time"),
    ] = ""
    observed_generation: Annotated[
        int,
        meta("The metadata.generation this was judged for; older than the object = out of date.", minimum=0),
    ] = 0


def get(conditions: Sequence[Condition], type_: str) -> Condition | None:
    """Return the condition of a type, if it is there."""
    for condition in conditions:  # asked for each host of a fleet, again and again
        if condition.type == type_:
            return condition
    return None


def is_true(conditions: Sequence[Condition], type_: str) -> bool:
    """Tell whether a condition is there and True."""
    found = get(conditions, type_)
    return found is not None and found.status == TRUE


def set_condition(conditions: Sequence[Condition], condition: Condition, now: str) -> list[Condition]:
    """Return the list with `condition` in it; `lastTransitionTime` moves to `now` only with the status.

    Its `observedGeneration`, reason and message are always taken over. The order of the others
    is kept, so that a status which says the same is written in the same words.
    """
    old = get(conditions, condition.type)
    since = old.last_transition_time if old is not None and old.status == condition.status else ""
    dated = msgspec.structs.replace(condition, last_transition_time=since or now)
    if old is None:
        return [*conditions, dated]
    return [dated if each.type == condition.type else each for each in conditions]
