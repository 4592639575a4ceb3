"""What a host reports of resources that nobody declares any more and that are still there."""

from __future__ import annotations

from typing import Annotated, Final

from nodemanager.kube.hints import ASCII, NAME_MAX, PATH_MAX, PRINTABLE, TEXT, meta
from nodemanager.kube.objects import Struct

MAX_SETS: Final = 64
MAX_NAMED: Final = 32
MAX_REASON: Final = 1024


class Orphan(Struct):
    """A resource that nobody declares any more and that is still there."""

    resource: Annotated[
        str,
        meta(
            "Which one, such as file:/etc/motd.", required=True, pattern=PRINTABLE, max_length=PATH_MAX + 64
        ),
    ] = ""
    configset: Annotated[
        str, meta("The ConfigSet that declared it last.", pattern=ASCII, max_length=NAME_MAX)
    ] = ""
    message: Annotated[str, meta("Why it is still there.", pattern=TEXT, max_length=MAX_REASON)] = ""


class Pruning(Struct, omit_defaults=False):
    """A ConfigSet of which this host has yet to take back something."""

    configset: Annotated[
        str, meta("Name of the ConfigSet.", required=True, pattern=ASCII, max_length=NAME_MAX)
    ] = ""
    resources: Annotated[int, meta("How much that is.", minimum=0)] = 0
    message: Annotated[
        str, meta("Why the first of them is still there.", pattern=TEXT, max_length=MAX_REASON)
    ] = ""


class Orphans(Struct, omit_defaults=False):
    """What is left behind of ConfigSets that do not declare it any more."""

    count: Annotated[int, meta("How many resources.", minimum=0)] = 0
    pruning: Annotated[
        list[Pruning],
        meta(
            "Sets of which something will be taken back, and was not yet; deleting them waits for it.",
            list_map_keys=("configset",),
            max_items=MAX_SETS,
        ),
    ] = []
    resources: Annotated[
        list[Orphan],
        meta("Some of them; all are told by nodemanager orphans on the host.", max_items=MAX_NAMED),
    ] = []
