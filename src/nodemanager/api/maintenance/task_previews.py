"""What a host says that a proposal would do to it: bounded, and without anything that is secret there."""

from __future__ import annotations

from typing import Annotated, Final

from nodemanager.kube.hints import HEX, NAME_MAX, PRINTABLE, TEXT, meta
from nodemanager.kube.objects import Struct

MAX_CHANGES: Final = 64
"""How many resources are listed one by one; the others are counted."""
MAX_DETAILS: Final = 2048
"""Characters of one diff."""
MAX_REASON: Final = 512
MAX_RESOURCE: Final = 512


class ProposalRef(Struct):
    """Which proposal is meant."""

    name: Annotated[
        str, meta("Name of the ConfigSetPreview.", required=True, min_length=1, max_length=NAME_MAX)
    ] = ""
    digest: Annotated[
        str,
        meta("What its digest has to be.", required=True, pattern=HEX, min_length=64, max_length=64),
    ] = ""


class PreviewedChange(Struct):
    """What would become of one resource."""

    resource: Annotated[
        str,
        meta("The resource, such as file /etc/motd.", required=True, pattern=PRINTABLE,
             max_length=MAX_RESOURCE),
    ] = ""  # fmt: skip
    verb: Annotated[
        str, meta("What would be done to it, such as write.", pattern=PRINTABLE, max_length=63)
    ] = ""
    reason: Annotated[str, meta("Why it would be done.", pattern=PRINTABLE, max_length=MAX_REASON)] = ""
    details: Annotated[
        str,
        meta("A diff, or digests where not everybody may read the contents; cut.", pattern=TEXT,
             max_length=MAX_DETAILS),
    ] = ""  # fmt: skip
    blocked: Annotated[bool, meta("It could not be done, such as in a conflict.")] = False


class TaskPreview(Struct):
    """What a proposal would change on a host, beyond what the host would do anyway."""

    digest: Annotated[
        str,
        meta("SHA-256 of all of it, also of what is cut: hosts with the same one say the same.",
             pattern=HEX, max_length=64),
    ] = ""  # fmt: skip
    changed: Annotated[int, meta("How many resources would be changed.", minimum=0)] = 0
    blocked: Annotated[int, meta("How many could not be.", minimum=0)] = 0
    changes: Annotated[
        list[PreviewedChange], meta("Both, one by one; the first of very many.", max_items=MAX_CHANGES)
    ] = []
