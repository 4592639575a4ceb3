"""A model of one Lease on an API server: optimistic locking, delays and outages included."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from nodemanager.client.http.transport import Request
from nodemanager.kube import errors
from support.model_api import Answer, status_body


class LeaseApi:
    """What all candidates share."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.revision = 0

    def handle(self, request: Request) -> Answer:
        """Answer one request at this very moment."""
        if request.method == "POST":
            if self.lease is not None:
                return Answer(409, status_body(409, "AlreadyExists"))
            return self._store(json.loads(request.body))
        if self.lease is None:
            return Answer(404, status_body(404, "NotFound"))
        if request.method == "PATCH":
            patch = json.loads(request.body)
            if patch["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                return Answer(409, status_body(409, "Conflict"))
            return self._store({**self.lease, "spec": {**self.lease["spec"], **patch["spec"]}})
        return Answer(200, json.dumps(self.lease).encode())

    def touch(self) -> None:
        """Change the object without changing who holds it, as `kubectl annotate` does."""
        if self.lease is not None:
            self._store(self.lease)

    def delete(self) -> None:
        """Remove the lease, as somebody with too many rights does."""
        self.lease = None

    def _store(self, lease: dict[str, Any]) -> Answer:
        self.revision += 1
        lease["metadata"] = {**lease["metadata"], "resourceVersion": str(self.revision)}
        self.lease = lease
        return Answer(200, json.dumps(lease).encode())


class Link:
    """One candidate's way to the API: it may be slow, or cut."""

    def __init__(self, api: LeaseApi, delay: Callable[[], float] = lambda: 0.0) -> None:
        self.cut = False
        self.lose_answers = 0
        self.hang_on = ""
        self.api = api
        self.delay = delay

    async def send(self, request: Request) -> Answer:
        await asyncio.sleep(self.delay())
        if self.cut:
            raise errors.Unreachable("cut")
        if request.method == self.hang_on:
            await asyncio.Event().wait()
        answer = self.api.handle(request)  # it takes effect here; the way back takes time again
        if self.lose_answers and request.method == "PATCH":
            self.lose_answers -= 1
            await asyncio.Event().wait()
        await asyncio.sleep(self.delay())
        if self.cut:
            raise errors.Unreachable("cut on the way back")
        return answer

    async def reauthenticate(self) -> bool:
        return False

    async def close(self) -> None:
        pass
