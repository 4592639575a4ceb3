"""What a ConfigSet names in `spec.notifies` reaches the API as a name, and never as a path."""

from __future__ import annotations

import msgspec
import pytest

from nodemanager.agent.passes.notifies import NotifiesAnnotator
from nodemanager.api.common.configset import ConfigSet
from nodemanager.client.http.transport import Request
from nodemanager.client.verbs import Client
from support.model_api import Answer


class Listening:
    """A transport that serves nothing and remembers what was asked for."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def send(self, request: Request) -> Answer:
        self.paths.append(request.target)
        return Answer(200, b'{"resources": []}')

    async def reauthenticate(self) -> bool:
        return False

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("api_version", "asked"),
    [
        ("v1", ["/api/v1"]),
        ("apps.example.com/v1beta1", ["/apis/apps.example.com/v1beta1"]),
        ("../api/v1/secrets", []),
        ("v1/namespaces/x/secrets?watch=1", []),
        ("a/b/c", []),
        ("", []),
    ],
)
async def test_an_api_version_is_no_path(api_version: str, asked: list[str]) -> None:
    transport = Listening()
    spec = {"notifies": [{"apiVersion": api_version, "kind": "Thing"}]}
    body = {"metadata": {"name": "a", "uid": "1", "generation": 1}, "spec": spec}
    await NotifiesAnnotator(Client(transport)).applied([msgspec.convert(body, ConfigSet)])
    assert transport.paths == asked
