"""Wait until the policy that stamps users is at work.

A kube-apiserver needs some seconds for that, and refuses writes of kinds that are new to it meanwhile: it has
to learn their schemas before it changes objects of them. So nothing of ours may be written before that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from nodemanager.api import kinds
from nodemanager.api.audit.actors import REQUESTED_BY
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.client.calls import WriteOptions
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.objects import Resource, Untyped
from nodemanager.runtime.backoff import Backoff

_POLL: Final = Backoff(base=0.1, maximum=1.0, jitter=0.0)
_NAMESPACE: Final = "default"
_STAMPED: Final[list[Resource[Untyped]]] = [one.resource.untyped() for one in kinds.KINDS if one.editors]


async def wait(client: Client, timeout: float, progress: Callable[[str], None]) -> None:
    """Ask what would become of new objects until they are stamped; give up, and say so, after a time."""
    attempts, left = 0, list(_STAMPED)
    try:
        async with asyncio.timeout(timeout):
            while left := [kind for kind in left if not await _is_stamped(client, kind)]:
                attempts += 1
                if attempts == 5:
                    progress("waiting until the server writes down who asks for something")
                await asyncio.sleep(_POLL.delay(attempts))
    except TimeoutError:
        progress(
            f"warning: the server does not write down yet who asks for {left[0].plural}, after {timeout:g} s;"
            " --timeout allows more"
        )
    except errors.StatusError as error:
        progress(f"warning: cannot tell whether the server writes down who asks for something: {error}")


async def _is_stamped(client: Client, kind: Resource[Untyped]) -> bool:
    """Ask with a dry run, of which nothing is kept. Each kind is learnt by itself, some seconds apart."""
    probe = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"generateName": "nodemanager-stamping-"},
        "spec": {},
    }
    namespace = _NAMESPACE if kind.namespaced else ""
    try:
        found: Untyped = await client.create(kind, probe, namespace, options=WriteOptions(dry_run=True))
    except errors.ServiceUnavailable:
        return False
    except errors.Invalid:
        if kind.qualified_name == CONFIG_SETS.qualified_name:
            raise  # an empty one is valid: something else is wrong
        return True  # what is stamped is checked after it: the server got that far
    return REQUESTED_BY in (found["metadata"].get("annotations") or {})
