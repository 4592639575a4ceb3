"""An agent that makes a pass when it is told to, and says what it took.

python -m bench.children.passes KUBECONFIG ROOT HOSTNAME

Everything is that of the real agent, from its caches to the status it writes; only its own reasons
to make a pass are left out. Reads one line per pass, answers one JSON object.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sys
import time

from nodemanager.agent import service
from nodemanager.agent.assembly import HostSetup
from nodemanager.agent.options import AgentOptions
from nodemanager.agent.parts import Agent
from nodemanager.cli.settings import connect
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.verbs import Client
from nodemanager.host.files.file_facts import DigestCache
from nodemanager.runtime import metrics


async def main(kubeconfig: str, root: str, hostname: str) -> None:
    """Obey until stdin ends."""
    logging.disable(logging.INFO)  # a thousand lines about a thousand files are not the work
    client = Client(HttpTransport(connect.client_config(connect.Settings(kubeconfig=kubeconfig))))
    agent = service.build(client, AgentOptions(host=HostSetup(root, hostname)), metrics.Registry())
    sources = agent.sources
    following = [asyncio.create_task(cache.run()) for cache in (sources.config_sets, sources.nodes)]
    await asyncio.gather(sources.config_sets.synced(), sources.nodes.synced())
    gc.freeze()
    try:
        while line := await asyncio.to_thread(sys.stdin.readline):
            if line.strip() == "forgetful":
                agent.managed_host.converger.observer.digests = DigestCache()
            print(json.dumps(await _pass(agent)), flush=True)
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        await client.close()
        agent.close()


async def _pass(agent: Agent) -> dict[str, float | str]:
    wall, cpu = time.perf_counter(), time.process_time()
    await agent.host_pass.run()
    took = {"wall": (time.perf_counter() - wall) * 1000, "cpu": (time.process_time() - cpu) * 1000}
    await asyncio.sleep(0.05)  # what the pass wrote comes back as an event; that belongs to it, but not here
    status = agent.sources.nodes.values()[0].status
    ready = next((one for one in status.conditions if one.type == "Ready"), None)
    return {**took, "error": "" if ready is not None and ready.status == "True" else str(ready)}


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
