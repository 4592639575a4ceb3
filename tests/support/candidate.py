"""A process that stands for election and, while it leads, writes its fencing token down.

    python -m support.candidate KUBECONFIG NAME LEASE_SECONDS

The tests stop and continue it with signals. Every line it prints is a fact about itself.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

from nodemanager.client.auth import kubeconfig
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.host.process import runner
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectMeta, Resource, Struct
from nodemanager.runtime.election import LeaderElector
from nodemanager.runtime.lease import LeaseLock, Timings
from nodemanager.runtime.parts import LeadershipLost


class ConfigMap(Struct):
    """What the leaders write to."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}


CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", ConfigMap)
SHARED = ("fence", "default")


def say(*words: object) -> None:
    """Print one fact with the time it became true."""
    sys.stdout.write(f"{time.monotonic():.6f} {' '.join(map(str, words))}\n")
    sys.stdout.flush()


async def write_tokens(client: Client, lock: LeaseLock) -> None:
    """Write our token into the shared object, over and over, through the fence."""
    fenced = client.guarded(lock.check)
    say("leads", lock.token)
    try:
        while True:
            data = {"token": str(lock.token), "at": str(time.monotonic_ns())}
            try:
                await fenced.patch(CONFIG_MAPS, *SHARED, MergePatch({"data": data}))
            except errors.KubeError as error:
                say("failed", error)
            await asyncio.sleep(0.02)
    finally:
        say("ends", lock.token)


async def main(path: str, name: str, seconds: int) -> None:
    """Stand for election until killed."""
    config = kubeconfig.load(path=path, environ=os.environ, run=runner.run)
    client = Client(HttpTransport(config))
    timings = Timings(seconds, seconds * 0.7, seconds * 0.15)
    lock = LeaseLock(client, "failover", "default", name, timings=timings)
    elector = LeaderElector(lock)
    while True:
        try:
            await elector.run(lambda: write_tokens(client, lock))
        except LeadershipLost as error:
            say("lost", error)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
