"""The registry of our kinds: what every other part looks up, or is generated from.

    api/GROUP/kinds.py  ->  KINDS  ->  CRDs, config/, the chart, RBAC, docs/reference and its navigation,
                                       get, describe, completion, checks of manifests

A part that is code and cannot live here, such as how `describe` shows a kind, is a table elsewhere that
calls `require`. So a forgotten part is an error at import, which `make check` runs into.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from nodemanager.api.audit import kinds as audit
from nodemanager.api.common import kinds as common
from nodemanager.api.edge import kinds as edge
from nodemanager.api.kind_parts import IncompleteKind, KindEntry
from nodemanager.api.maintenance import kinds as maintenance


def registered(entries: Iterable[KindEntry]) -> tuple[KindEntry, ...]:
    """Return the entries if no two of them claim one name or one page, or raise."""
    owners: dict[str, KindEntry] = {}
    found = tuple(entries)
    for kind in found:
        for name in (*kind.names, kind.page):
            other = owners.setdefault(name, kind)
            if other is not kind:
                raise IncompleteKind(
                    f"cannot register {kind.resource.kind}: {name} is {other.resource.kind} already;"
                    f" choose another in {kind.file}"
                )
    return found


KINDS: Final = registered([*common.KINDS, *maintenance.KINDS, *edge.KINDS, *audit.KINDS])
"""In the order in which they are shown to people."""

BY_NAME: Final = tuple(sorted(KINDS, key=lambda kind: kind.resource.qualified_name))
"""In the order of generated files, so that a new kind moves no other."""


def named(api_version: str, kind: str) -> KindEntry | None:
    """Return the kind that a manifest says it is of, if it is one of ours."""
    return next(
        (one for one in KINDS if (one.resource.api_version, one.resource.kind) == (api_version, kind)), None
    )


def require(part: str, having: Collection[str], file: str, kinds: Iterable[KindEntry] = KINDS) -> None:
    """Raise unless every kind has a part that is kept elsewhere, by qualified name."""
    for kind in kinds:
        if kind.resource.qualified_name not in having:
            raise IncompleteKind(f"cannot use {kind.resource.kind}: it has no {part}; add it in {file}")
