"""Finds words of a newer version in an object that an older one reads: unknown values of enums. Pure.

What a type does not declare is not kept when it is decoded, so only values can be told to be unknown.
"""

from __future__ import annotations

import functools
from typing import get_args

import msgspec

from nodemanager.kube.objects import Struct


def unknown_word(found: Struct) -> tuple[str, str] | None:
    """Return where the first value is that we do not know, and what it is; None = we know all of them."""
    for name, (encoded, words) in _fields(type(found)).items():
        value = getattr(found, name)
        if words and value and value not in words:
            return encoded, str(value)
        for one in value if isinstance(value, list) else (value,):
            below = unknown_word(one) if isinstance(one, Struct) else None
            if below is not None:
                return f"{encoded}.{below[0]}", below[1]
    return None


@functools.cache
def _fields(kind: type[Struct]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the fields of a type: what each is called in JSON, and the words that it may have."""
    return {one.name: (one.encode_name, _words(one.type)) for one in msgspec.structs.fields(kind)}


def _words(hint: object) -> tuple[str, ...]:
    metas = (one for one in get_args(hint) if isinstance(one, msgspec.Meta))
    return tuple(word for one in metas for word in (one.extra_json_schema or {}).get("enum", ()))
