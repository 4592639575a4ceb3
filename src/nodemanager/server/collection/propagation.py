"""What happens to the objects that a deleted object owns; a finalizer of that object says it."""

from __future__ import annotations

from nodemanager.kube.objects import Untyped
from nodemanager.server.kinds import crds
from nodemanager.server.kinds.builtin_kinds import CRDS, NAMESPACES
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs.delete_options import DeleteOptions

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_FINALIZERS = {"Foreground": [FOREGROUND], "Orphan": [ORPHAN], "Background": []}


def finalizers(kind: ServedKind, obj: Untyped, options: DeleteOptions) -> list[str]:
    """Return the finalizers of an object after a request to delete it.

    Explicit options win over a finalizer that is there already. Three kinds go their own way: events
    own nothing, for a namespace only the first request counts, for a definition only the later ones.
    """
    had: list[str] = list(obj["metadata"].get("finalizers") or [])
    asked_before = bool(obj["metadata"].get("deletionTimestamp"))
    if kind is CRDS and not asked_before:
        return had if crds.CLEANUP in had else [*had, crds.CLEANUP]
    if kind is NAMESPACES and asked_before and (obj.get("spec") or {}).get("finalizers"):
        return had
    ours = [one for one in had if one in (FOREGROUND, ORPHAN)]
    wanted = _wanted(kind, ours, options)
    return had if wanted == ours else [one for one in had if one not in ours] + wanted


def _wanted(kind: ServedKind, ours: list[str], options: DeleteOptions) -> list[str]:
    if kind.plural == "events" and not kind.custom:
        return []
    if options.orphan is not None:
        if kind is NAMESPACES and not options.orphan:
            return [FOREGROUND]
        return [ORPHAN] if options.orphan else []
    return _FINALIZERS[options.policy] if options.policy else ours[:1]
