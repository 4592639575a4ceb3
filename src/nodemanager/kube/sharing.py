"""What many objects have alike, kept once: a cache of ten thousand hosts is a third smaller by that.

A decoder makes a new dict for each that is empty, and a new text for each `True` of each condition. No code
changes an object that is in a cache, so they may all have the same one.
"""

from __future__ import annotations

import sys
from typing import Any, Final, TypeVar

import msgspec

from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta

S = TypeVar("S", bound=msgspec.Struct)
M = TypeVar("M", bound=ObjectMeta)
_EMPTY: Final[dict[type, Any]] = {dict: {}, list: []}
"""Of the very types that decoders make: what is empty is left out when it is written, but not of others."""


def shared(obj: S) -> S:
    """Return a struct whose empty lists and dicts are those of all others; what is inside of it stays."""
    empty = {
        name: _EMPTY[type(value)]
        for name in obj.__struct_fields__
        if not (value := getattr(obj, name)) and type(value) in _EMPTY
    }
    return msgspec.structs.replace(obj, **empty) if empty else obj


def shared_meta(meta: M) -> M:
    """Return the same of metadata; names, too: a host has one in each cache, and wherever it is noted."""
    names = {"name": sys.intern(meta.name), "namespace": sys.intern(meta.namespace)}
    return shared(msgspec.structs.replace(meta, **names))


def shared_conditions(conditions: list[Condition]) -> list[Condition]:
    """Return conditions whose words are those of all others: there are few types, states and reasons."""
    return [
        msgspec.structs.replace(
            one, type=sys.intern(one.type), status=sys.intern(one.status), reason=sys.intern(one.reason)
        )
        for one in conditions
    ]
