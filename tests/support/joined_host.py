"""A host that joined an API the way the documentation says, and what its credential can do there."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec

from nodemanager.client.auth import kubeconfig
from nodemanager.client.calls import Call
from nodemanager.client.verbs import Client
from nodemanager.host.process import runner
from nodemanager.kube import core, errors
from support import cli
from support.clients import connected
from support.either import Place

MERGE = "application/merge-patch+json"


def run(place: Place, *args: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """Run `nodemanager` as the administrator of a place, as a real process."""
    return subprocess.run(
        [*cli.ARGV, *args], input=stdin, env=place.environ(**environ), capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


def ran(place: Place, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run `nodemanager`, which must succeed."""
    done = run(place, *args, **environ)
    assert done.returncode == 0, f"nodemanager {' '.join(args)}: {done.stdout}{done.stderr}"
    return done


@dataclass(frozen=True)
class Joined:
    """A host with a credential of its own."""

    name: str
    place: Place
    kubeconfig: Path

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Be that host."""
        config = kubeconfig.load(path=str(self.kubeconfig), environ={}, run=runner.run)
        async with connected(config) as client:
            yield client


async def join(place: Place, folder: Path, name: str, *flags: str) -> Joined:
    """Let a host in, with nothing but the documented commands and kubectl; in this process, for speed."""
    own, short = folder / name / "kubeconfig", folder / f"{name}.bootstrap"
    here, admin = ("--hostname", name, "-n", place.namespace), ("--kubeconfig", str(place.kubeconfig))

    def run_all() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        rights = succeeds("rbac", *here, *flags)
        place.kubectl("apply", "-f", "-", stdin=rights.stdout)
        succeeds("token", *here, *admin, "--out", str(short))
        succeeds("bootstrap", *here, "--bootstrap-kubeconfig", str(short), "--kubeconfig", str(own))

    await asyncio.to_thread(run_all)
    return Joined(name, place, own)


_in_force: set[frozenset[str]] = set()
"""The versions of all policies and bindings of a server, each time that all of ours were in force."""


async def guard(place: Place, folder: Path) -> None:
    """Put the admission policies in force, which a kube-apiserver takes a moment for; once is enough."""
    if await _versions(place) in _in_force:
        return
    await asyncio.to_thread(succeeds, "crds", "--install", "--kubeconfig", str(place.kubeconfig))
    probe = await join(place, folder, "probe")
    lease = {"metadata": {"name": "stray", "namespace": place.namespace}}
    async with probe.client() as client, asyncio.timeout(90):
        target = f"/apis/coordination.k8s.io/v1/namespaces/{place.namespace}/leases?dryRun=All"
        while (await ask(client, "POST", target, lease)).code == 200:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.05)
    _in_force.add(await _versions(place))


async def _versions(place: Place) -> frozenset[str]:
    config = kubeconfig.load(path=str(place.kubeconfig), environ={}, run=runner.run)
    async with connected(config) as admin:
        pages = [await admin.list(kind) for kind in (core.POLICIES, core.POLICY_BINDINGS)]
    metas = [one["metadata"] for page in pages for one in page.items]
    return frozenset(f"{meta['uid']} {meta['resourceVersion']}" for meta in metas)


def succeeds(*args: str) -> cli.Ran:
    """Run a command in this process, which must succeed."""
    done = cli.run(*args)
    assert done.code == 0, f"nodemanager {' '.join(args)}: {done}"
    return done


class Reply(NamedTuple):
    """What an API answered."""

    code: int
    message: str = ""


async def ask(client: Client, method: str, target: str, body: Any = None, kind: str = "") -> Reply:
    """Send one request, and return what came back; a watch is ended by its timeout."""
    path, _, query = target.partition("?")
    content = kind or (MERGE if method == "PATCH" else "application/json")
    data = b"" if body is None else msgspec.json.encode(body)
    try:
        await client.send(Call(method, path, "try", dict(parse_qsl(query)), data, content))
    except errors.StatusError as error:
        return Reply(error.code, str(error))
    return Reply(200)
