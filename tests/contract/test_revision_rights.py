"""Who may do what with ConfigSetRevisions, on both servers: the operator makes them, nobody changes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from nodemanager.api.common import configsetrevision
from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS
from nodemanager.client.verbs import Client
from support.accounts import operating
from support.agent_process import Api
from support.either import Place
from support.joined_host import ask

FORBIDDEN, INVALID, OK = 403, 422, 200


def revision(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    content = {"files": [{"path": "/etc/motd", "content": "hello"}], "later": {"field": 1}}
    labels = {"role": "web"}
    said = {"configSet": "web", "revision": 1, "labels": labels, "content": content}
    digest = configsetrevision.digest_of(labels, content)
    return {
        "apiVersion": CONFIG_SET_REVISIONS.api_version,
        "kind": CONFIG_SET_REVISIONS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**said, "digest": digest, **spec},
    }


def folder(place: Place) -> str:
    return CONFIG_SET_REVISIONS.path(place.namespace)


@pytest.fixture(name="operator")
async def _operator(place: Place, api: Api, me: Client) -> AsyncIterator[Client]:
    """The operator, where the policies are in force, with a revision."""
    del me
    async with operating(place) as client:
        assert (await ask(client, "POST", folder(place), revision("web-1", place.namespace))).code == OK
        async with asyncio.timeout(90):  # a kube-apiserver takes a moment for its policies
            probe = revision("probe", place.namespace)
            while (await ask(api.client, "POST", f"{folder(place)}?dryRun=All", probe)).code == OK:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        yield client


async def test_an_administrator_makes_changes_and_removes_none(
    place: Place, api: Api, operator: Client
) -> None:
    who = "may not {} ConfigSetRevisions: only the operator of their namespace may; "
    one = f"{folder(place)}/web-1"
    for verb, method, target, body in (
        ("create", "POST", folder(place), revision("web-2", place.namespace)),
        ("change", "PATCH", one, {"metadata": {"labels": {"a": "b"}}}),
        ("delete", "DELETE", one, None),
    ):
        refused = await ask(api.client, method, target, body)
        assert (refused.code, who.format(verb) in refused.message) == (FORBIDDEN, True), refused
    assert (await ask(operator, "DELETE", one)).code == OK


async def test_nobody_changes_what_it_says(place: Place, api: Api, operator: Client) -> None:
    for change in ({"digest": "0" * 64}, {"labels": {"role": "db"}}, {"revision": 2}):
        refused = await ask(api.client, "PATCH", f"{folder(place)}/web-1", {"spec": change})
        assert (refused.code, "it is what was said at one time" in refused.message) == (INVALID, True)
    # A rule of a schema does not compare what has no schema, where one name takes the place of another.
    contents: list[dict[str, Any]] = [
        {"files": None, "packages": [{"name": "forged"}]}, {"files": None}, {"more": {}},
    ]  # fmt: skip
    for content in contents:
        tampered = {"spec": {"content": content}}
        refused = await ask(api.client, "PATCH", f"{folder(place)}/web-1", tampered)
        assert refused.code in (FORBIDDEN, INVALID), refused
        assert "it is what was said at one time" in refused.message
    found = await operator.get(CONFIG_SET_REVISIONS, "web-1", place.namespace)
    assert configsetrevision.spec_of(found, found.spec.digest).files[0].content == "hello"


async def test_a_host_gets_one_by_name_whole_and_nothing_else(
    place: Place, me: Client, operator: Client
) -> None:
    """What a newer version declares is in it, too, so that its digest is right everywhere."""
    found = await me.get(CONFIG_SET_REVISIONS, "web-1", place.namespace)
    assert configsetrevision.spec_of(found, found.spec.digest).files[0].content == "hello"
    assert found.spec.content["later"] == {"field": 1}
    forged = revision("web-2", place.namespace)
    for method, target, body in (
        ("GET", folder(place), None),
        ("POST", folder(place), forged),
        ("PATCH", f"{folder(place)}/web-1", {"metadata": {"labels": {"a": "b"}}}),
        ("DELETE", f"{folder(place)}/web-1", None),
    ):
        assert (await ask(me, method, target, body)).code == FORBIDDEN, method
    del operator
