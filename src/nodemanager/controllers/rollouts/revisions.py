"""Revisions of a ConfigSet: which one it is now, how one is made, and which are not needed any more."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

from nodemanager.api.common import configsetrevision, set_reports
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.configsetrevision import (
    CHANGE,
    CHANGE_MAX,
    CONFIG_SET_REVISIONS,
    BadRevision,
    ConfigSetRevision,
)
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.common.rollout import RevisionRef, RolloutStatus
from nodemanager.client.verbs import Client
from nodemanager.kube.objects import Untyped

BY_SET: Final = "set"
"""Index: revisions by the uid of their ConfigSet."""
MAX_MANAGER: Final = 128


def by_set(revision: ConfigSetRevision) -> Iterable[str]:
    """Return what the index has of a revision."""
    return [one.uid for one in revision.metadata.owner_references if one.kind == CONFIG_SETS.kind]


def current(config_set: ConfigSet, known: Sequence[ConfigSetRevision]) -> ConfigSetRevision | None:
    """Return the newest revision, if it is what the set says; None = there has to be a new one."""
    newest = max(known, key=_number, default=None)
    # Compared at each look: what an older version made of the same generation may lack what it did not know.
    return newest if newest and configsetrevision.says_the_same(newest, config_set) else None


def readable(known: Iterable[ConfigSetRevision]) -> list[RevisionRef]:
    """Return what hosts have to know of revisions, without those that they would refuse."""
    found = []
    for one in known:
        with contextlib.suppress(BadRevision):
            found.append(configsetrevision.reference(one))
    return found


async def create(
    client: Client, config_set: ConfigSet, known: Sequence[ConfigSetRevision]
) -> ConfigSetRevision:
    """Make the next revision; AlreadyExists means that there is a newer one than is known."""
    raw = await client.get(CONFIG_SETS.untyped(), config_set.metadata.name, config_set.metadata.namespace)
    body = _body(config_set, max(map(_number, known), default=0) + 1, _changed_by(raw))
    return await client.create(CONFIG_SET_REVISIONS, body, config_set.metadata.namespace)


def needless(
    config_set: ConfigSet,
    status: RolloutStatus,
    known: Sequence[ConfigSetRevision],
    nodes: Iterable[ManagedNode],
) -> list[str]:
    """Return the revisions beyond the limit, oldest last, that no host has or may get."""
    refs = (status.stable, status.next, status.refused)
    named = {status.current, *(one.name for one in refs if one is not None)}
    old = sorted((one for one in known if one.metadata.name not in named), key=_number, reverse=True)
    beyond = old[config_set.spec.revision_history_limit :]
    if not beyond:
        return []
    reports = (set_reports.report_of(node, config_set.metadata.name) for node in nodes)
    used = {one.digest for one in reports if one is not None}
    return [one.metadata.name for one in beyond if one.spec.digest not in used]


def _number(revision: ConfigSetRevision) -> int:
    return revision.spec.revision


def _body(config_set: ConfigSet, number: int, changed_by: dict[str, Any]) -> dict[str, Any]:
    meta = config_set.metadata
    content = configsetrevision.content_of(config_set.spec)
    owner = {
        "apiVersion": CONFIG_SETS.api_version, "kind": CONFIG_SETS.kind, "name": meta.name, "uid": meta.uid,
        "controller": True, "blockOwnerDeletion": False,
    }  # fmt: skip
    claimed = "".join(one for one in meta.annotations.get(CHANGE, "") if one.isprintable())
    return {
        "metadata": {"name": configsetrevision.name_of(meta, number), "ownerReferences": [owner]},
        "spec": {
            "configSet": meta.name,
            "revision": number,
            "generation": meta.generation,
            "digest": configsetrevision.digest_of(meta.labels, content),
            "labels": meta.labels,
            "content": content,
            **({"changedBy": changed_by} if changed_by else {}),
            **({"change": claimed[:CHANGE_MAX]} if claimed else {}),
        },
    }


def _changed_by(raw: Untyped) -> dict[str, Any]:
    """Return who wrote the spec last, as far as the API knows: the field manager, not the user."""
    entries = [
        one for one in raw["metadata"].get("managedFields", []) if "f:spec" in (one.get("fieldsV1") or {})
    ]
    last = max(entries, key=lambda one: str(one.get("time", "")), default=None)
    if last is None:
        return {}
    manager = "".join(one for one in str(last.get("manager", "")) if one.isprintable())
    return {"manager": manager[:MAX_MANAGER], **({"time": last["time"]} if last.get("time") else {})}
