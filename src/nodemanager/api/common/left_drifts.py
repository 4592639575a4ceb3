"""What a host reports of drifts that it does not put back at once: some wait for a turn, some for people."""

from __future__ import annotations

from typing import Annotated, Final

from nodemanager.kube.hints import ASCII, NAME_MAX, meta
from nodemanager.kube.objects import Struct

MAX_SETS: Final = 64


class LeftDrift(Struct):
    """What of one ConfigSet is left as somebody changed it."""

    configset: Annotated[
        str, meta("Name of the ConfigSet.", required=True, pattern=ASCII, max_length=NAME_MAX)
    ] = ""
    since: Annotated[
        str, meta("When the first of it was noticed.", format="date-time", required=True, max_length=64)
    ] = ""
    resources: Annotated[int, meta("How many resources.", minimum=0)] = 0


class LeftDrifts(Struct):
    """Drifts that are not put back at once."""

    asks: Annotated[
        list[LeftDrift],
        meta(
            "Where drift is in-turn: what the host asks the operator for a turn for.",
            list_map_keys=("configset",),
            max_items=MAX_SETS,
        ),
    ] = []
    used: Annotated[
        str,
        meta("The last turn that is over here: nothing is done for its sake any more.", pattern=ASCII,
             max_length=NAME_MAX),
    ] = ""  # fmt: skip
    escalated: Annotated[
        list[LeftDrift],
        meta(
            "Where drift is escalate: what waits for a person.",
            list_map_keys=("configset",),
            max_items=MAX_SETS,
        ),
    ] = []
