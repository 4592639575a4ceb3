"""When `crds --install` believes that objects are stamped: each kind, not before the server knows it."""

from __future__ import annotations

import json

from nodemanager.api import kinds
from nodemanager.api.audit.actors import REQUESTED_BY
from nodemanager.cli.installing import stamping_start
from nodemanager.client.auth.config import ClientConfig
from support.clients import connected
from support.scripted_server import Exchange, serve

STAMPED = sorted(one.resource.plural for one in kinds.KINDS if one.editors)


def plural(asked: Exchange) -> str:
    return asked.target.partition("?")[0].rsplit("/", 1)[1]


class Learning:
    """A server that learns kinds one after the other, one with each question about it."""

    def __init__(self, slow: dict[str, int]) -> None:
        self.unknown = dict(slow)
        self.answered: list[str] = []

    async def answer(self, asked: Exchange) -> None:
        name = plural(asked)
        assert asked.query["dryRun"] == "All"
        if self.unknown.get(name):
            self.unknown[name] -= 1
            await asked.refuse(503, "ServiceUnavailable", "Resource kind not found. There can be a delay")
            return
        self.answered.append(name)
        if name == "configsets":
            body = json.loads(asked.body)
            body["metadata"]["annotations"] = {REQUESTED_BY: "alice"}
            await asked.json(body, 201)
        else:
            await asked.refuse(422, "Invalid", "spec.steps: Required value")


async def waited(server: Learning, timeout: float = 30.0) -> list[str]:
    told: list[str] = []
    async with serve(server.answer) as serving, connected(ClientConfig(serving.url)) as client:
        await stamping_start.wait(client, timeout, told.append)
    return told


async def test_every_kind_that_people_write_is_waited_for_and_asked_about_no_more_then() -> None:
    server = Learning({"nodeoperationtemplates": 2, "configsets": 1})
    assert await waited(server) == []
    assert sorted(server.answered) == STAMPED


async def test_a_kind_that_the_server_does_not_learn_is_named() -> None:
    [last] = [
        line for line in await waited(Learning({"nodeoperationtemplates": 10**6}), 0.5) if "warn" in line
    ]
    assert last.startswith("warning: the server does not write down yet who asks for nodeoperationtemplates,")
