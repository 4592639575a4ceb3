"""Writers and watchers of a server that is killed: what was acknowledged, what is in doubt, what was seen.

Every object has one writer, so at most one change of it is in doubt when the server dies.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import aiohttp

PATH = "/api/v1/namespaces/nodemanager/configmaps"
NAMES = 6
"""Objects of one writer."""
GONE = (aiohttp.ClientError, ConnectionError, TimeoutError)
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


@dataclass
class Ledger:
    """What the server said, over all of its lives."""

    values: dict[str, str | None] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    doubtful: dict[str, str | None] = field(default_factory=dict)
    revisions: dict[int, tuple[str, str | None]] = field(default_factory=dict)
    """Every acknowledged revision, with what it did to which object."""
    verbs: dict[str, int] = field(default_factory=dict)
    floor: int = 0
    """The revision at the last restart: whatever happens from then on is later."""

    def acknowledge(self, verb: str, name: str, version: str) -> None:
        """Note that a change has happened."""
        value = self.doubtful.pop(name)
        if version:
            assert int(version) not in self.revisions, f"revision {version} was given out twice"
            assert int(version) > self.floor, f"revision {version} is of a former life"
            self.revisions[int(version)] = (name, value)
        self.values[name], self.versions[name] = value, version
        self.verbs[verb] = self.verbs.get(verb, 0) + 1

    def settle(self, listed: dict[str, tuple[str, str]]) -> None:
        """Compare with what is there after a restart: value and version of every object."""
        for name in {*self.values, *self.doubtful}:
            value, version = listed.get(name, (None, ""))
            allowed = [self.values.get(name)]
            if name in self.doubtful:
                allowed.append(self.doubtful[name])
            assert value in allowed, f"{name} is {value!r}, and {allowed} were acknowledged or under way"
            if value is not None and name not in self.doubtful:
                assert version == self.versions[name], f"{name} has another version than was acknowledged"
            self.values[name], self.versions[name] = value, version
        assert set(listed) <= set(self.values), "an object that nobody made"
        self.doubtful.clear()


class Writer:
    """Changes its own objects, one at a time, until the server is gone."""

    def __init__(self, number: int, ledger: Ledger, seed: int) -> None:
        self._number, self._ledger = number, ledger
        self._dice = random.Random(f"{seed}/{number}")

    async def run(self, http: aiohttp.ClientSession) -> None:
        """Write until the connection breaks."""
        with contextlib.suppress(*GONE):
            while True:
                await self._step(http)

    async def _step(self, http: aiohttp.ClientSession) -> None:
        name = f"w{self._number}-{self._dice.randrange(NAMES)}"
        value = f"{self._dice.random()}" * self._dice.choice([1, 1, 200])
        there = self._ledger.values.get(name) is not None
        verbs = ("update", "patch", "apply", "delete") if there else ("create", "apply")
        verb = self._dice.choice(verbs)
        self._ledger.doubtful[name] = None if verb == "delete" else value
        version = self._ledger.versions.get(name, "") if there else ""
        method, path, body, kind = _request(verb, name, value, version)
        async with http.request(
            method, path, data=json.dumps(body), headers={"Content-Type": kind}
        ) as response:
            answer = await response.json()
            assert response.status in (200, 201), f"{verb} of {name} (there: {there}): {answer}"
        # A delete is answered with a Status that has no revision of its own.
        self._ledger.acknowledge(verb, name, answer["metadata"].get("resourceVersion", ""))


class Watcher:
    """Follows all objects through all lives of a server, as an informer does: resume, or relist on 410."""

    def __init__(self) -> None:
        self.last = 0
        self.state: dict[str, str] = {}
        self.seen: dict[int, tuple[str, str | None]] = {}
        self.relists: list[tuple[int, int]] = []
        """Where it stopped and where it went on, whenever the server had forgotten what was between."""
        self.resumed = 0

    async def run(self, http: aiohttp.ClientSession) -> None:
        """Follow until the connection breaks."""
        with contextlib.suppress(*GONE):
            if self.last == 0:
                await self._relist(http)
            while True:
                async with contextlib.aclosing(self._events(http)) as events:
                    async for event in events:
                        if not self._note(event):
                            await self._relist(http)
                            break

    def missed(self, ledger: Ledger) -> list[int]:
        """Return acknowledged revisions that it neither saw as they were nor was told to have missed."""
        started = min((end for _, end in self.relists), default=0)
        return [
            revision
            for revision, change in ledger.revisions.items()
            if started < revision <= self.last
            and not any(start < revision <= end for start, end in self.relists)
            and self.seen.get(revision) != change
        ]

    async def _events(self, http: aiohttp.ClientSession) -> AsyncGenerator[dict[str, Any], None]:
        query = {"watch": "1", "resourceVersion": str(self.last), "allowWatchBookmarks": "true"}
        async with http.get(PATH, params=query) as response:
            assert response.status == 200, await response.text()
            self.resumed += 1
            async for line in response.content:
                if line.endswith(b"\n"):  # otherwise it was killed within a line
                    yield json.loads(line)

    def _note(self, event: dict[str, Any]) -> bool:
        """Take in an event; return False when it says that we are too late."""
        obj = event["object"]
        if event["type"] == "ERROR":
            assert obj["code"] == 410, obj
            return False
        revision, name = int(obj["metadata"]["resourceVersion"]), obj["metadata"].get("name", "")
        assert revision > self.last or event["type"] == "BOOKMARK", "a change was told twice or too late"
        self.last = revision
        if event["type"] == "DELETED":
            self.seen[revision] = (name, None)
            del self.state[name]
        elif event["type"] in ("ADDED", "MODIFIED"):
            assert (name in self.state) == (event["type"] == "MODIFIED"), event
            self.state[name] = obj["data"]["value"]
            self.seen[revision] = (name, self.state[name])
        return True

    async def _relist(self, http: aiohttp.ClientSession) -> None:
        listed = await listing(http)
        assert listed.revision >= self.last, "the server went back in time"
        self.relists.append((self.last, listed.revision))
        self.last = listed.revision
        self.state = {name: value for name, (value, _) in listed.objects.items()}


class Listing(NamedTuple):
    """All objects, with value and version, and the revision of the list."""

    objects: dict[str, tuple[str, str]]
    revision: int


async def listing(http: aiohttp.ClientSession) -> Listing:
    """Return what is there now."""
    async with http.get(PATH) as response:
        body = await response.json()
        assert response.status == 200, body
    found = {
        item["metadata"]["name"]: (item["data"]["value"], item["metadata"]["resourceVersion"])
        for item in body["items"]
    }
    return Listing(found, int(body["metadata"]["resourceVersion"]))


def _request(verb: str, name: str, value: str, version: str) -> tuple[str, str, Any, str]:
    meta = {"name": name, **({"resourceVersion": version} if verb == "update" else {})}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"value": value}}
    match verb:
        case "create":
            return "POST", PATH, body, "application/json"
        case "update":
            return "PUT", f"{PATH}/{name}", body, "application/json"
        case "patch":
            return "PATCH", f"{PATH}/{name}", {"data": {"value": value}}, MERGE
        case "apply":
            return "PATCH", f"{PATH}/{name}?fieldManager=test&force=true", body, APPLY
    return "DELETE", f"{PATH}/{name}", {}, "application/json"
