"""Who a revision says has changed the set: the user whom the API saw, and how that is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.audit import actors
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.configsetrevision import ChangedBy
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.controllers.rollouts import revisions
from support import whole_server
from support.accounts import operator_of
from support.clients import connected

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
