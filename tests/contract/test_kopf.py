"""An operator written with kopf: the same on the embedded server and kube-apiserver."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.client.auth import kubeconfig
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.host.process import runner
from nodemanager.kube import errors
from nodemanager.kube.objects import Resource, Untyped
from support import gadget_operator
from support.clients import connected
from support.either import Place

GADGETS: Resource[Untyped] = Resource("clients.test", "v1", "Gadget", "gadgets", dict)
EVENTS: Resource[Untyped] = Resource("", "v1", "Event", "events", dict)


@pytest.fixture
def operator(place: Place, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, "-m", "kopf", "run", "--standalone", "--verbose"]
    argv += ["--namespace", place.namespace, str(gadget_operator.__file__)]
    with (tmp_path / "kopf.log").open("wb") as log:
        process = subprocess.Popen(argv, env=place.environ(), stdout=log, stderr=log)
    try:
        yield process
        process.send_signal(signal.SIGINT)
        assert process.wait(50) == 0, (tmp_path / "kopf.log").read_text()
    finally:
        process.kill()
        process.wait(50)
    text = (tmp_path / "kopf.log").read_text()
    assert "Traceback" not in text, text


async def settled(client: Client, namespace: str, ready: Callable[[Untyped | None], bool]) -> Any:
    """Return the gadget, or None when there is none, as soon as it is as it should be."""
    async with asyncio.timeout(50):
        while True:
            try:
                found = await client.get(GADGETS, "g", namespace)
            except errors.NotFound:
                found = None
            if ready(found):
                return found
            await asyncio.sleep(0.05)


def has(field: str) -> Callable[[Untyped | None], bool]:
    return lambda found: found is not None and field in found.get("status", {})


async def test_an_operator_from_creation_to_deletion(place: Place, operator: subprocess.Popen[bytes]) -> None:
    config = kubeconfig.load(path=str(place.kubeconfig), environ={}, run=runner.run)
    async with connected(config) as client:
        await client.create(GADGETS, {"metadata": {"name": "g"}, "spec": {"size": 1}}, place.namespace)
        made = await settled(client, place.namespace, has("made"))
        assert (made["status"]["size"], made["status"]["made"]) == (1, {"made": True})
        assert made["metadata"]["finalizers"] == ["clients.test/kopf"]
        await client.patch(GADGETS, "g", place.namespace, MergePatch({"spec": {"size": 2}}))
        resized = await settled(client, place.namespace, has("resized"))
        assert resized["status"]["resized"] == "1 to 2"
        await client.delete(GADGETS, "g", place.namespace)
        await settled(client, place.namespace, lambda found: found is None)
        events = await client.list(EVENTS, Selection(place.namespace, fields="involvedObject.name=g"))
        assert {"Made", "Ended"} <= {event["reason"] for event in events.items}
    assert operator.poll() is None
