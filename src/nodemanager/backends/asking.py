"""Questions to the Kubernetes API about a backend; failures become errors of backends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from nodemanager.backends.errors import BackendError, Denied, Garbled, NoSuchThing, Unreachable
from nodemanager.client.calls import EVERYWHERE, Selection
from nodemanager.client.verbs import Client
from nodemanager.fleet.edge import facts
from nodemanager.fleet.edge.decoding import printable
from nodemanager.kube import errors
from nodemanager.kube.objects import HasMetadata, Resource

SECONDS: Final = 10.0
"""How long an answer may take."""
MAX_LISTED: Final = facts.MAX_LISTED
T = TypeVar("T")
Listed = TypeVar("Listed", bound=HasMetadata)


async def ask(doing: str, answer: Awaitable[T]) -> T:
    """Return an answer of the API, or raise why there is none."""
    try:
        async with asyncio.timeout(SECONDS):
            return await answer
    except errors.NotFound as error:
        raise NoSuchThing(doing, error.message, code=404) from error
    except (errors.Forbidden, errors.Unauthorized) as error:
        said = f"the operator may not, see nodemanager edge rbac ({error.message})"
        raise Denied(f"cannot {doing}: {printable(said, 400)}") from error
    except TimeoutError as error:
        raise Unreachable(f"cannot {doing}: no answer within {SECONDS:g} s") from error
    except errors.ProtocolError as error:
        raise Garbled(f"cannot {doing}: {printable(str(error), 400)}") from error
    except errors.TransportError as error:
        raise Unreachable(f"cannot {doing}: {printable(str(error), 400)}") from error
    except errors.TooLong:
        raise
    except errors.KubeError as error:
        raise BackendError(printable(str(error), 400)) from error


async def ask_all(
    doing: str, client: Client, resource: Resource[Listed], where: Selection = EVERYWHERE, others: int = 0
) -> list[Listed]:
    """Return a whole list: one of which something cannot be read would pass for one without it.

    `others` have been read already of those of which there may be so many together.
    """
    try:
        page = await ask(doing, client.list(resource, where, most=max(0, MAX_LISTED - others)))
    except errors.TooLong as error:
        said = f"there are more than {MAX_LISTED}, which are not those of a site"
        raise Garbled(f"cannot {doing}: {said}") from error
    if page.malformed:
        first = page.malformed[0]
        raise Garbled(f"cannot {doing}: {printable(f'{first.key} cannot be read: {first.message}', 400)}")
    return page.items
