"""Sends notices to the address that a Secret has."""

from __future__ import annotations

from typing import Final

from nodemanager.api.maintenance.notifications import NotifySecret
from nodemanager.client.http import posting
from nodemanager.client.http.posting import CA, Address, NotDelivered
from nodemanager.client.verbs import Client
from nodemanager.controllers.notifications.messages import MAX_BODY, Message
from nodemanager.kube import errors
from nodemanager.kube.core import SECRETS

ID_HEADER: Final = "x-nodemanager-id"


async def address(client: Client, namespace: str, reference: NotifySecret) -> Address:
    """Return the address that a Secret has."""
    where = f"key {reference.key} of Secret {reference.name}"
    try:
        secret = await client.get(SECRETS, reference.name, namespace)
    except errors.NotFound:
        raise NotDelivered(f"there is no Secret {reference.name}: create it, with the address") from None
    except errors.KubeError as error:
        raise NotDelivered(f"Secret {reference.name} cannot be read: {type(error).__name__}") from None
    found = secret.values.get(reference.key)
    if found is None:
        raise NotDelivered(f"there is no {where}: write the address into it")
    return Address(found.decode(errors="replace"), secret.values.get(CA), where)


async def send(to: Address, message: Message, ident: str) -> None:
    """Deliver a message, or say why not."""
    if (size := len(message.body)) > MAX_BODY:
        raise NotDelivered(f"the message has {size} bytes, at most {MAX_BODY} are sent: shorten its template")
    await posting.post(to, message.body, {"content-type": message.content_type, ID_HEADER: ident})
