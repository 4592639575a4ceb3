"""Everything that a host can ask an API for: every verb on every kind that the API says it serves.

The kinds are those of discovery, so that a new one is tried as soon as it exists. Nothing is changed by the
attempts: what could be is a dry run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from nodemanager.client.calls import Call
from nodemanager.client.verbs import Client
from support.host_attempts import APPLY, VERBS, Attempt, event, lease, meta, node, task

ME, OTHER, NOBODY = "b", "a", "nobody"
TARGETS = ("own", "other", "nobody", "elsewhere", "all", "everywhere")
"""Objects of this host, of another, of nobody, in another namespace; a whole namespace, all namespaces."""
PARTS = ("status", "scale", "finalizers", "token", "eviction", "exec", "proxy", "log", "binding", "approval")
"""Subresources that are tried on every kind, whether it has them or not."""
REFUSED = 403
AT_ONCE = 8

Codes = Mapping[tuple[str, str, str], int]
"""The code of every attempt, by kind, verb and target."""


class Served(NamedTuple):
    """A kind, or a subresource of one, as discovery tells of it."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    part: str = ""
    guessed: bool = False
    """Nobody says that it is there: tried all the same, but not in every way."""

    @property
    def title(self) -> str:
        """How the table calls it: `leases.coordination.k8s.io`, `pods/eviction`."""
        group = self.api_version.rpartition("/")[0]
        return self.plural + (f"/{self.part}" if self.part else "") + (f".{group}" if group else "")

    def folder(self, namespace: str) -> str:
        """Where its objects are; everywhere without a namespace."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        inside = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return f"{root}{inside}/{self.plural}"


async def _read(client: Client, path: str) -> Any:
    return msgspec.json.decode(await client.send(Call("GET", path, "discover", {})))


async def kinds(client: Client) -> list[Served]:
    """Return all that an API serves, with what it may have below it."""
    groups = (await _read(client, "/apis"))["groups"]
    versions = ["v1", *(one["groupVersion"] for group in groups for one in group["versions"])]
    found: dict[tuple[str, str, str], Served] = {}
    for version in versions:
        path = f"/apis/{version}" if "/" in version else f"/api/{version}"
        for one in (await _read(client, path))["resources"]:
            plural, _, part = one["name"].partition("/")
            served = Served(version, one["kind"], plural, one["namespaced"], part)
            found[version, plural, part] = served
            for guess in () if part else PARTS:
                found.setdefault((version, plural, guess), served._replace(part=guess, guessed=True))
    return list(found.values())


def name_of(plural: str, host: str) -> str:
    """Return what an object of a host is called."""
    forms = {"leases": "nodemanager-{}", "serviceaccounts": "nodemanager-{}", "secrets": "wg-wg0-{}"}
    return {**forms, "events": "{}.17f0a"}.get(plural, "{}").format(host)


def body_of(served: Served, host: str, namespace: str) -> dict[str, Any]:
    """Return an object that nothing is wrong with, where it matters whether a host may write it."""
    name = name_of(served.plural, host)
    if served.part == "token":
        return {"spec": {}}
    where = namespace if served.namespaced else ""
    good = {
        "leases": lease(name, where, host),
        "events": event(name, where, host),
        "managednodes": node(host, where),
        "nodetasks": task(name, where, host),
    }
    if served.part == "eviction":
        return {"apiVersion": "policy/v1", "kind": "Eviction", **meta(name, where)}
    body = good.get(served.plural, meta(name, where))
    if served.plural == "events" and served.api_version != "v1":
        body = {**body, "regarding": body.get("involvedObject")}
    return {**body, "apiVersion": served.api_version, "kind": served.kind}


_CHANGES: dict[str, dict[str, Any]] = {
    "events": {"count": 2},
    "leases": {"spec": {"leaseDurationSeconds": 61}},
    "nodes": {"spec": {"unschedulable": True}},
}


@dataclass(frozen=True)
class World:
    """Where the host lives, and a place where it does not."""

    home: str
    elsewhere: str

    def attempts(self, served: Served) -> Iterator[tuple[str, Attempt]]:
        """Return every verb on one kind, each with whom it is aimed at."""
        if served.guessed:
            for one in _verbs(served, served.folder(self.home), ME, self.home):
                if one.verb in ("get", "create", "patch"):
                    yield "own", one
            return
        names = {"own": ME, "other": OTHER, "nobody": NOBODY, "elsewhere": ME}
        for target, host in names.items():
            if target != "elsewhere" or served.namespaced:
                space = self.elsewhere if target == "elsewhere" else self.home
                for one in _verbs(served, served.folder(space), host, space):
                    yield target, one
        spaces = {"all": self.home, "everywhere": ""} if served.namespaced else {"all": ""}
        for target, space in spaces.items():
            if not served.part:
                for one in _collection(served, served.folder(space)):
                    yield target, one


def _verbs(served: Served, folder: str, host: str, namespace: str) -> Iterator[Attempt]:
    name, body = name_of(served.plural, host), body_of(served, host, namespace)
    one = f"{folder}/{name}" + (f"/{served.part}" if served.part else "")
    dry = "" if served.part == "token" or "review" in served.plural else "?dryRun=All"
    change = _CHANGES.get(served.plural, {"metadata": {"annotations": {"a": "b"}}})
    apply = f"{one}?fieldManager=me&force=true&dryRun=All"
    yield Attempt(served.title, "get", "GET", one)
    yield Attempt(served.title, "create", "POST", (one if served.part else folder) + dry, body)
    yield Attempt(served.title, "update", "PUT", f"{one}?dryRun=All", body)
    yield Attempt(served.title, "patch", "PATCH", f"{one}?dryRun=All", change)
    yield Attempt(served.title, "apply", "PATCH", apply, body, APPLY)
    yield Attempt(served.title, "delete", "DELETE", f"{one}?dryRun=All")
    if not served.part:
        yield from _collection(served, folder, f"fieldSelector=metadata.name%3D{name}&")


def _collection(served: Served, folder: str, selector: str = "") -> Iterator[Attempt]:
    yield Attempt(served.title, "list", "GET", f"{folder}?{selector}limit=1")
    yield Attempt(served.title, "watch", "GET", f"{folder}?{selector}watch=1&timeoutSeconds=1")
    yield Attempt(served.title, "deletecollection", "DELETE", f"{folder}?{selector}dryRun=All")


async def tried(client: Client, world: World, served: Iterable[Served]) -> dict[tuple[str, str, str], int]:
    """Make all attempts, a few at a time, and return what came of them."""
    turns = asyncio.Semaphore(AT_ONCE)
    codes: dict[tuple[str, str, str], int] = {}

    async def make(target: str, attempt: Attempt) -> None:
        async with turns:
            codes[attempt.what, attempt.verb, target] = (await attempt.made(client)).code

    async with asyncio.TaskGroup() as group:
        for one in served:
            for target, attempt in world.attempts(one):
                group.create_task(make(target, attempt))
    return codes


def allowed(codes: Codes) -> set[tuple[str, str, str]]:
    """Return what was not refused, however it ended."""
    return {tried for tried, code in codes.items() if code != REFUSED}


def table(codes: Codes) -> str:
    """Return it for people: kinds down, verbs across; in each cell the targets that were not refused."""
    lines = [f"| kind | tried | {' | '.join(VERBS)} |", "|---" * (len(VERBS) + 2) + "|"]
    open_ = allowed(codes)
    for what in dict.fromkeys(what for what, _, _ in codes):
        cells = [
            " ".join(target for target in TARGETS if (what, verb, target) in open_) or "-" for verb in VERBS
        ]
        count = sum(1 for one, _, _ in codes if one == what)
        lines.append(f"| {what} | {count} | {' | '.join(cells)} |")
    return "\n".join(lines)
