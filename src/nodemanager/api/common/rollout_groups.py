"""ConfigSets that move together: what is published of them, of the same size for any number of hosts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated, Final

from nodemanager.kube.hints import HEX, NAME_MAX, meta
from nodemanager.kube.objects import Struct

MAX_MEMBERS: Final = 32
GROUP_MAX: Final = 63
"""Characters of the name of a group."""


class GroupMember(Struct):
    """One ConfigSet that a change of its group is about."""

    name: Annotated[str, meta("Name of the ConfigSet.", max_length=NAME_MAX)] = ""
    digest: Annotated[str, meta("SHA-256 of what it says in this change.", pattern=HEX, max_length=64)] = ""


class GroupRef(Struct):
    """The group of a set, and the last change of it that the set was part of."""

    name: Annotated[str, meta("As in rollout.group.", max_length=GROUP_MAX)] = ""
    id: Annotated[
        str,
        meta(
            "SHA-256 of the name and of members: a change is for hosts while all its members publish the "
            "same. Empty: the set is not part of the change.",
            pattern=HEX,
            max_length=64,
        ),
    ] = ""
    members: Annotated[list[GroupMember], meta("The sets that change, by name.", max_items=MAX_MEMBERS)] = []

    def digest_of(self, name: str) -> str:
        """Return the digest of a set's content in this change; empty = it is not part of it."""
        return next((one.digest for one in self.members if one.name == name), "")


def change_of(name: str, members: Iterable[GroupMember]) -> GroupRef:
    """Return what is published of a change of a group; without any member, of one that does not change."""
    known = sorted(members, key=lambda one: one.name)
    if not known:
        return GroupRef(name=name)
    text = "\n".join((name, *(f"{one.name} {one.digest}" for one in known)))
    return GroupRef(name=name, id=hashlib.sha256(text.encode()).hexdigest(), members=known)
