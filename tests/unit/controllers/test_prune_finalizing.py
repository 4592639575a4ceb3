"""Deletions that wait for hosts, where the set itself cannot be read any more."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from nodemanager.api.common.configset import CONFIG_SETS, FINALIZER
from nodemanager.client.http.transport import Request
from nodemanager.client.verbs import Client
from nodemanager.controllers.pruning import finalizing
from nodemanager.controllers.pruning.finalizing import Finalizing
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Change
from support.model_api import Answer

KEY = ObjectKey("nm", "web")
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class Api:
    """An API with one set, which a newer version has written."""

    def __init__(self, **meta: Any) -> None:
        known = {"name": "web", "namespace": "nm", "uid": "u", "resourceVersion": "7"}
        self.set = {"metadata": {**known, **meta}, "spec": "of a newer version"}
        self.patches: list[Any] = []

    async def send(self, request: Request) -> Answer:
        if request.method == "PATCH":
            self.patches.append(json.loads(request.body or b""))
        return Answer(200, json.dumps(self.set).encode())


def finalizer_of(api: Api, after: timedelta, said: list[str]) -> Finalizing:
    sets: Any = SimpleNamespace(malformed={KEY: "cannot be read"}, get=lambda _key: None)
    nodes: Any = SimpleNamespace(values=list)
    events: Any = SimpleNamespace(warning=lambda _kind, _obj, reason, _text: said.append(reason))
    transport: Any = api
    return Finalizing(Client(transport), sets, nodes, events, lambda: BEGAN + after)


async def test_a_set_that_cannot_be_read_does_not_stay_for_ever() -> None:
    said: list[str] = []
    api = Api(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["others", FINALIZER])
    waits = await finalizer_of(api, timedelta(minutes=4), said).reconcile(KEY)
    assert waits is not None
    assert (waits.requeue_after, api.patches) == (360.0, [])
    assert await finalizer_of(api, timedelta(minutes=10), said).reconcile(KEY) is None
    assert api.patches == [{"metadata": {"resourceVersion": "7", "finalizers": ["others"]}}]
    assert said == ["PruneTimedOut"]


@pytest.mark.parametrize("meta", [{"finalizers": [FINALIZER]}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}])
async def test_one_that_is_not_deleted_or_waits_for_others_is_left_alone(meta: dict[str, Any]) -> None:
    api = Api(**meta)
    assert await finalizer_of(api, timedelta(days=1), []).reconcile(KEY) is None
    assert api.patches == []


def test_news_of_a_set_that_cannot_be_read_wake_it() -> None:
    caches: Any = SimpleNamespace(of={CONFIG_SETS: SimpleNamespace(malformed={KEY: "why"})}.get)
    assert [one.key for one in finalizing.on_config_set(Change(KEY, None, None), caches)] == [KEY]
