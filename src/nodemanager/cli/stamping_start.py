"""Wait until the policy that stamps users is at work.

A kube-apiserver needs some seconds for that, and refuses writes of kinds that are new to it meanwhile: it has
to learn their schemas before it changes objects of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from nodemanager.api.audit.actors import REQUESTED_BY
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.client.calls import WriteOptions
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.objects import Untyped
from nodemanager.runtime.backoff import Backoff

_POLL: Final = Backoff(base=0.1, maximum=1.0, jitter=0.0)
_NAMESPACE: Final = "default"
_PROBE: Final = {
    "apiVersion": CONFIG_SETS.api_version,
    "kind": CONFIG_SETS.kind,
    "metadata": {"generateName": "nodemanager-stamping-"},
    "spec": {},
}
"""What is only asked about: a dry run, of which nothing is kept."""


async def wait(client: Client, timeout: float, progress: Callable[[str], None]) -> None:
    """Ask what would become of a new object until it is stamped; give up, and say so, after a time."""
    attempts = 0
    try:
        async with asyncio.timeout(timeout):
            while not await _is_stamped(client):
                attempts += 1
                if attempts == 5:
                    progress("waiting until the server writes down who asks for something")
                await asyncio.sleep(_POLL.delay(attempts))
    except TimeoutError:
        progress(
            f"warning: the server does not write down yet who asks for something, after {timeout:g} s;"
            " --timeout allows more"
        )
    except errors.StatusError as error:
        progress(f"warning: cannot tell whether the server writes down who asks for something: {error}")


async def _is_stamped(client: Client) -> bool:
    options = WriteOptions(dry_run=True)
    try:
        found: Untyped = await client.create(CONFIG_SETS.untyped(), _PROBE, _NAMESPACE, options=options)
    except errors.ServiceUnavailable:
        return False
    return REQUESTED_BY in (found["metadata"].get("annotations") or {})
