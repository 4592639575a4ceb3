"""The declarations of a realtime operation: the host resources of a ConfigSet, and no other fields.

The operator makes a ConfigSet of it, for the hosts of the series. So it does not select hosts, and
there are no defaults of the schema: it is inside of a list.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from nodemanager.api.common.declarations import Execution, File, Package, Service
from nodemanager.kube.hints import Rule, meta
from nodemanager.kube.objects import Struct

MAX_PACKAGES: Final = 64
MAX_FILES: Final = 16
MAX_SERVICES: Final = 16
MAX_EXECUTIONS: Final = 8
"""Smaller than in a ConfigSet: the API server adds up what all rules of all operations may cost."""
LISTS: Final = ("packages", "files", "services", "executions")
"""The fields that declare host resources: those of a ConfigSet, in the order of a pass."""


def _has_some(name: str) -> str:
    return f"has(self.{name}) && size(self.{name}) > 0"


class RealtimeSet(Struct):
    """What the hosts shall have while the window is open; outside of it, only differences are told."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"[{', '.join(map(_has_some, LISTS))}].exists(given, given)",
            f"declares nothing: add {', '.join(LISTS[:-1])} or {LISTS[-1]}",
        ),
    )

    priority: Annotated[
        int,
        meta(
            "Who wins where other ConfigSets declare the same resource differently; default 0.",
            format="int32",
            minimum=-(2**31),
            maximum=2**31 - 1,
        ),
    ] = 0
    packages: Annotated[
        list[Package],
        meta("Packages to install or remove.", list_map_keys=("name",), max_items=MAX_PACKAGES),
    ] = []
    files: Annotated[
        list[File], meta("Files, directories and links.", list_map_keys=("path",), max_items=MAX_FILES)
    ] = []
    services: Annotated[
        list[Service], meta("Services to start, stop, enable and restart.", max_items=MAX_SERVICES)
    ] = []
    executions: Annotated[
        list[Execution],
        meta("Programs to run when something changed or is missing.", max_items=MAX_EXECUTIONS),
    ] = []
