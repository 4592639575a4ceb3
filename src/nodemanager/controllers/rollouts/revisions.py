"""Revisions of a ConfigSet: which one is current, how one is made, and which are no longer needed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

from nodemanager.api.audit import actors
from nodemanager.api.common import configsetrevision, set_reports
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.configsetrevision import (
    CONFIG_SET_REVISIONS,
    BadRevision,
    ConfigSetRevision,
)
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.common.rollout import RevisionRef, RolloutStatus
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.objects import Untyped

BY_SET: Final = "set"
"""Index: revisions by the uid of their ConfigSet."""
ETCD_REFUSES: Final = ("request is too large", "message larger than max")
"""The error of a kube-apiserver when its etcd refuses an object: 1.5 MiB or more."""


class RevisionTooLarge(Exception):
    """The API refuses a revision because of its size; the message is the API's."""


def by_set(revision: ConfigSetRevision) -> Iterable[str]:
    """Return the index values of a revision."""
    return [one.uid for one in revision.metadata.owner_references if one.kind == CONFIG_SETS.kind]


def current(config_set: ConfigSet, known: Sequence[ConfigSetRevision]) -> ConfigSetRevision | None:
    """Return the newest revision, if it has the set's content; None = a new one is needed."""
    newest = max(known, key=_number, default=None)
    # Each look compares: the revision of an older version may lack fields that it did not know.
    return newest if newest and configsetrevision.says_the_same(newest, config_set) else None


def readable(known: Iterable[ConfigSetRevision]) -> list[RevisionRef]:
    """Return the parts of revisions that hosts need, without those that they would refuse."""
    found = []
    for one in known:
        with contextlib.suppress(BadRevision):
            found.append(configsetrevision.reference(one))
    return found


async def create(
    client: Client, config_set: ConfigSet, known: Sequence[ConfigSetRevision]
) -> ConfigSetRevision:
    """Make the next revision; AlreadyExists means that there is a newer one than is known. Or TooLarge."""
    raw = await client.get(CONFIG_SETS.untyped(), config_set.metadata.name, config_set.metadata.namespace)
    body = _body(
        config_set, max(map(_number, known), default=0) + 1, _changed_by(raw, config_set.metadata.generation)
    )
    try:
        return await client.create(CONFIG_SET_REVISIONS, body, config_set.metadata.namespace)
    except errors.TooLarge as error:
        raise RevisionTooLarge(str(error)) from error
    except errors.InternalError as error:
        if any(one in str(error) for one in ETCD_REFUSES):
            raise RevisionTooLarge(str(error)) from error
        raise


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
    approval = config_set.spec.rollout.approval if config_set.spec.rollout is not None else None
    asked_by = approval.requester if approval is not None and approval.different_user else ""
    claimed = actors.printable(meta.annotations.get(actors.CHANGE), actors.MAX_CHANGE)
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
            **({"change": claimed} if claimed else {}),
            **({"requester": asked_by} if asked_by else {}),
        },
    }


def _changed_by(raw: Untyped, generation: int) -> dict[str, Any]:
    """Return who wrote the spec last: the user that the API recorded, else the field manager."""
    if raw["metadata"].get("generation") != generation:
        return {}  # another program wrote since, so the earlier author is unknown
    found = actors.who(raw)
    manager, time = actors.last_writer(raw["metadata"])
    said = {"name": found.name, "claimed": found.claimed, "manager": manager, "time": time}
    if found.known in (actors.ADMISSION, actors.FIELD_MANAGER):
        said["known"] = found.known
    return {name: value for name, value in said.items() if value}
