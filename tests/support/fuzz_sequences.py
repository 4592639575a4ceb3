"""A random sequence of requests to two servers, compared after every step and at the end."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from nodemanager.kube.objects import Untyped
from support import duel_verdicts, embedded
from support.apiserver import ApiServer
from support.duel import Answer, Ask, Duel, duelling
from support.fuzz_objects import BUILTIN, Kind, custom
from support.fuzz_steps import Steps, drop_open_nulls
from support.random_schemas import Maker
from support.raw_api import client_context

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "fuzz.example.com"
_SERVED_WITHIN = 30


class Unlike(AssertionError):
    """The servers differ."""

    def __init__(self, what: str, asked: Sequence[str]) -> None:
        super().__init__(f"{what}\n  after:\n" + "\n".join(f"    {one}" for one in asked))
        self.what = what


class Run:
    """One sequence on a namespace of its own."""

    def __init__(self, duel: Duel, random: Random, customs: Sequence[Kind]) -> None:
        self._duel = duel
        self._random = random
        self._namespace = f"fuzz-{uuid.uuid4().hex[:12]}"  # another one whenever it is run again
        pool = customs if customs and random.random() < 0.5 else BUILTIN
        self._kinds = random.sample(list(pool), min(len(pool), random.randint(1, 2)))
        self._steps = Steps(random, self._namespace, self._kinds)
        self._asked: list[str] = []
        self._schemas = [f"{kind.plural}: {json.dumps(kind.schema)}" for kind in self._kinds if kind.custom]

    async def run(self) -> int:
        """Return how many requests were compared; raise Unlike at the first difference."""
        self._duel.forget()
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._namespace}}
        await self._compare(Ask("POST", "/api/v1/namespaces", {}, body))
        for number, kind in enumerate(self._kinds):
            await self._compare(self._everything(kind))
            for server in (self._duel.ours, self._duel.theirs):
                server.symbols.remember(f"@list{number}", server.symbols.filled_in("@list"))
        for _ in range(self._random.randint(8, 15)):
            kind, name, ask = self._steps.step()
            self._learn(kind, name, ask, await self._compare(ask))
        for number, kind in enumerate(self._kinds):
            await self._compare(self._everything(kind))
            if kind.updates and self._random.random() < 0.3:
                await self._replay(kind, f"@list{number}")
        return len(self._asked)

    def _everything(self, kind: Kind, **more: str) -> Ask:
        query = {} if kind.namespaced else {"labelSelector": f"run={self._namespace}"}
        return Ask("GET", kind.path(self._namespace), {**query, **more})

    async def _compare(self, ask: Ask) -> Answer:
        raw = await self._duel.ask(ask)
        servers = (self._duel.ours, self._duel.theirs)
        ours, theirs = (
            duel_verdicts.read(one, server.symbols) for one, server in zip(raw, servers, strict=True)
        )
        self._asked.append(f"{ask} -> {theirs.code}")
        if unlike := duel_verdicts.difference(ours, theirs):
            raise Unlike(unlike, self._schemas + self._asked)
        return theirs

    def _learn(self, kind: Kind, name: str, ask: Ask, answer: Answer) -> None:
        """Keep in mind what is there now."""
        body, lives = answer.body, self._steps.lives
        if "dryRun" in str(ask) or not isinstance(body, dict) or answer.code >= 300:
            return
        if ask.method == "DELETE" and not name:
            lives.clear()
        elif body.get("kind") == "Status":
            lives.pop((kind, name), None)
        elif body.get("kind") == kind.kind and "resourceVersion" in body["metadata"]:
            if (kind, name) in lives:
                self._steps.stale.append(lives[kind, name]["metadata"]["resourceVersion"])
            lives[kind, body["metadata"]["name"]] = body

    async def _replay(self, kind: Kind, since: str) -> None:
        ask = self._everything(kind, watch="true", resourceVersion=since)
        self._asked.append(str(ask))
        found = await self._duel.watch(ask)
        servers = (self._duel.ours, self._duel.theirs)
        ours, theirs = (
            [duel_verdicts.event(one, server.symbols) for one in events]
            for events, server in zip(found, servers, strict=True)
        )
        if unlike := duel_verdicts.difference(Answer(200, ours), Answer(200, theirs)):
            raise Unlike(f"watch: {unlike}", self._schemas + self._asked)


class Arena:
    """Both servers, and the custom kinds that are defined on them right now."""

    def __init__(self, duel: Duel) -> None:
        self.duel = duel
        self.customs: list[Kind] = []
        self.asked = self.sequences = 0

    def fresh(self) -> str:
        """Return the name of a namespace that nobody has, and forget all symbols."""
        self.duel.forget()
        return f"found-{uuid.uuid4().hex[:12]}"

    async def define(self, random: Random, count: int) -> None:
        """Replace the custom kinds by new ones with random schemas."""
        for kind in self.customs:
            await self.duel.ask(Ask("DELETE", f"{CRDS}/{kind.plural}.{GROUP}"))
        self.customs = []
        maker = Maker(random)
        for _ in range(count):
            word = f"k{random.getrandbits(48):012x}"
            schema = maker.root()
            _without_open_nulls(schema)
            if random.random() < 0.6:
                phase = {"type": "object", "properties": {"phase": {"type": "string"}}}
                schema["properties"]["status"] = phase
            await self.add(word, schema)
        await asyncio.gather(*(self.served(kind) for kind in self.customs))

    async def add(self, word: str, schema: dict[str, Any]) -> None:
        """Define one more custom kind, unless both refuse its schema."""
        definition = _definition(word, schema, status="status" in schema["properties"])
        ours, theirs = await self.duel.ask(Ask("POST", CRDS, {}, definition))
        if ours[0] != theirs[0]:
            raise Unlike(f"definition: ours {ours}, theirs {theirs}", [str(definition)])
        if theirs[0] == 201:
            self.customs.append(custom(GROUP, f"{word}s", word.capitalize(), schema))

    async def served(self, kind: Kind) -> None:
        """Wait until a custom kind is served."""
        async with asyncio.timeout(_SERVED_WITHIN):
            while (await self.duel.theirs.ask(Ask("GET", kind.path("default"))))[0] == 404:
                pass

    async def run(self, random: Random) -> None:
        """Run one sequence."""
        self.asked += await Run(self.duel, random, self.customs).run()
        self.sequences += 1


def _without_open_nulls(schema: dict[str, Any]) -> None:
    """Take null out of the defaults of a schema where it would be stored, but never shown."""
    drop_open_nulls(schema.get("default"), schema)
    more = schema.get("additionalProperties")
    below = [*schema.get("properties", {}).values(), schema.get("items"), more]
    for part in below:
        if isinstance(part, dict):
            _without_open_nulls(part)


def _definition(word: str, schema: dict[str, Any], *, status: bool) -> Untyped:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if status:
        version["subresources"] = {"status": {}}
    kind = word.capitalize()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{word}s.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"kind": kind, "plural": f"{word}s", "singular": word, "listKind": f"{kind}List"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


@asynccontextmanager
async def arena(kube: ApiServer) -> AsyncIterator[Arena]:
    """The embedded server next to a real one."""
    async with (
        embedded.serving() as ours,
        duelling(ours.server, kube.server, client_context(kube)) as duel,
    ):
        _stop_collecting()
        yield Arena(duel)


def _stop_collecting() -> None:
    """Leave the owned alone, as kube-apiserver does: in a cluster, another process collects."""
    for task in asyncio.all_tasks():
        if task.get_name() == "garbage collector":
            task.cancel()
