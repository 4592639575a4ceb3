"""What a revision says, and who has changed the set; which one is current, and which nobody needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.api.audit import actors
from nodemanager.api.common import configsetrevision
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.configsetrevision import ChangedBy, ConfigSetRevision
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.common.rollout import RolloutStatus
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.controllers.rollouts import revisions
from support import whole_server
from support.accounts import operator_of
from support.clients import connected
from support.visited_api import VisitedApi

NAMESPACE = "default"
STAMP = '{"user":"ada","groups":["ops"],"of":1,"generation":3}'
WROTE = [{"manager": "kubectl", "time": "2026-11-17T08:00:00Z", "fieldsV1": {"f:spec": {}}}]


def seen(generation: int, **annotations: str) -> dict[str, Any]:
    return {"metadata": {"generation": generation, "annotations": annotations, "managedFields": WROTE}}


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (
            seen(3, **{actors.REQUESTED_BY: STAMP, actors.CLAIMED_AUTHOR: "bob"}),
            {"name": "ada", "known": "admission", "claimed": "bob", "manager": "kubectl"},
        ),
        (seen(3), {"name": "kubectl", "known": "fieldManager", "manager": "kubectl"}),
        (seen(4, **{actors.REQUESTED_BY: STAMP}), {}),
        ({"metadata": {"generation": 3}}, {}),
    ],
    ids=["stamped", "not stamped", "somebody wrote meanwhile", "nothing tells"],
)
def test_the_stamp_counts_before_the_field_manager(raw: dict[str, Any], said: dict[str, str]) -> None:
    expected = {**said, "time": "2026-11-17T08:00:00Z"} if said else {}
    assert revisions._changed_by(raw, 3) == expected


LABELS = {"role": "web"}


def config_set(limit: int = 1, annotations: dict[str, str] | None = None, **spec: Any) -> ConfigSet:
    meta = {
        "name": "web", "namespace": "x", "uid": "u-1", "labels": LABELS, "generation": 3,
        "annotations": annotations or {},
    }  # fmt: skip
    files = [{"path": "/x", "template": "new"}]
    body = {"files": files, "revisionHistoryLimit": limit, **spec}
    return msgspec.convert({"metadata": meta, "spec": body}, ConfigSet)


def revision(number: int, text: str = "new", **meta: Any) -> ConfigSetRevision:
    """Return a revision of the set; it says the same now, or has another text."""
    content = configsetrevision.content_of(config_set().spec)
    content = {**content, "files": [{"path": "/x", "template": text}]} if text != "new" else content
    spec = {
        "configSet": "web", "revision": number, "labels": LABELS, "content": content,
        "digest": configsetrevision.digest_of(LABELS, content),
    }  # fmt: skip
    return msgspec.convert({"metadata": {"name": f"web-{number}", **meta}, "spec": spec}, ConfigSetRevision)


def test_revisions_are_found_by_their_set() -> None:
    owners = [{"kind": "Other", "uid": "u-0", "apiVersion": "v1", "name": "x"},
              {"kind": "ConfigSet", "uid": "u-1", "apiVersion": "v1", "name": "web"}]  # fmt: skip
    assert list(revisions.by_set(revision(1, ownerReferences=owners))) == ["u-1"]


def test_the_newest_revision_is_current_if_it_says_the_same() -> None:
    old, same = revision(1, "old"), revision(2)
    assert revisions.current(config_set(), []) is None
    assert revisions.current(config_set(), [same, old]) is same
    assert revisions.current(config_set(), [old]) is None
    assert revisions.current(config_set(), [same, revision(3, "old")]) is None


def test_revisions_that_hosts_would_refuse_are_left_out() -> None:
    forged = revision(2)
    forged.spec.content["files"] = []
    assert [one.name for one in revisions.readable([revision(1), forged, revision(3)])] == ["web-1", "web-3"]


def host(name: str, digest: str) -> ManagedNode:
    status = {"configsets": [{"name": "web", "digest": digest}, {"name": "other", "digest": "x"}]}
    return msgspec.convert({"metadata": {"name": name}, "status": status}, ManagedNode)


def test_old_revisions_go_unless_somebody_has_them_or_may_get_them() -> None:
    known = [revision(number, f"text {number}") for number in (4, 1, 7, 2, 6, 3, 5)]
    ref = {one.spec.revision: configsetrevision.reference(one) for one in known}
    status = RolloutStatus(stable=ref[5], next=ref[7], refused=ref[6], current="web-7")
    assert revisions.needless(config_set(1), status, known, []) == ["web-3", "web-2", "web-1"]
    assert revisions.needless(config_set(4), status, known, []) == []
    has_it = [host("a", ref[2].digest), ManagedNode()]
    assert revisions.needless(config_set(1), status, known, has_it) == ["web-3", "web-1"]
    named = RolloutStatus(current="web-1")
    assert revisions.needless(config_set(5), named, known, []) == ["web-2"]


@pytest.mark.parametrize(
    ("given", "known", "wanted"),
    [
        pytest.param(config_set(), [], {"revision": 1}, id="the first"),
        pytest.param(config_set(), [revision(2), revision(4)], {"revision": 5}, id="the next"),
        pytest.param(
            config_set(annotations={actors.CHANGE: "ticket 7"}), [], {"revision": 1, "change": "ticket 7"},
            id="for a reason",
        ),
        pytest.param(
            config_set(
                rollout={"strategy": "Staged", "approval": {"differentUser": True, "requester": "ada"}}
            ),
            [], {"revision": 1, "requester": "ada"}, id="somebody else has to approve",
        ),
        pytest.param(
            config_set(rollout={"strategy": "Staged", "approval": {"required": True, "requester": "ada"}}),
            [], {"revision": 1}, id="anybody may approve",
        ),
    ],
)  # fmt: skip
async def test_what_a_revision_says(
    given: ConfigSet, known: list[ConfigSetRevision], wanted: dict[str, Any]
) -> None:
    api = VisitedApi()
    api.put("configsets/x/web", metadata={"generation": 3})
    made = await revisions.create(Client(api), given, known)
    (body,) = [one for path, one in api.objects.items() if path.startswith("configsetrevisions/")]
    content = configsetrevision.content_of(given.spec)
    assert body["spec"] == {
        "configSet": "web", "generation": 3, "labels": LABELS, "content": content,
        "digest": configsetrevision.digest_of(LABELS, content), **wanted,
    }  # fmt: skip
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (
        "ConfigSet", "u-1", True, False,
    )  # fmt: skip
    assert made.metadata.name == configsetrevision.name_of(given.metadata, wanted["revision"])


async def changed(admin: Client, operator: Client) -> ChangedBy | None:
    """Return who a new revision of a set says has changed it."""
    found = await admin.get(CONFIG_SETS, "web", NAMESPACE)
    return (await revisions.create(operator, found, [])).spec.changed_by


async def test_a_revision_names_the_user(tmp_path: Path) -> None:
    async with (
        whole_server.serving(tmp_path) as (config, _),
        connected(config) as admin,
        connected(operator_of(config, NAMESPACE)) as operator,
    ):
        note = {actors.CLAIMED_AUTHOR: "ada"}
        body = {"metadata": {"name": "web", "annotations": note}, "spec": {"files": []}}
        await admin.create(CONFIG_SETS, body, NAMESPACE)
        await admin.patch(CONFIG_SETS, "web", NAMESPACE, MergePatch({"spec": {"priority": 7}}))
        by = await changed(admin, operator)
        raw: dict[str, Any] = await admin.get(CONFIG_SETS.untyped(), "web", NAMESPACE)
        stamped = actors.who(raw)
    assert by is not None
    assert (by.known, by.claimed) == (actors.ADMISSION, "ada")
    assert by.name == stamped.name != by.manager
    assert str(by) == by.name


def test_in_words_a_field_manager_is_told_as_such() -> None:
    assert str(ChangedBy(name="ada", known="admission", manager="kubectl")) == "ada"
    assert str(ChangedBy(name="kubectl", known="fieldManager", manager="kubectl")) == "kubectl (fieldManager)"
    assert str(ChangedBy(manager="kubectl")) == "kubectl (fieldManager)"
    assert str(ChangedBy()) == ""
