"""Where the records of the log are sent, such as a SIEM: read for each delivery from a Secret or a folder.

    url      the address, https:// only
    token    sent as bearer token, if there is one
    hmac     key of an HMAC-SHA256 of time, number of the first record, and body, if there is one
    ca.crt   authority of its certificate, if it is not a public one

A folder has files of these names, like a mounted Secret. No message and no log line shows their content.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nodemanager.client.http import posting
from nodemanager.client.http.posting import CA, Address, NotDelivered
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.core import SECRETS

URL: Final = "url"
TOKEN: Final = "token"  # noqa: S105 - a name
HMAC: Final = "hmac"
MAX_VALUE: Final = 64 << 10
LOG: Final = "x-nodemanager-log"
FIRST: Final = "x-nodemanager-first"
COUNT: Final = "x-nodemanager-count"
TIME: Final = "x-nodemanager-time"
SIGNATURE: Final = "x-nodemanager-signature"


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Some consecutive records."""

    origin: str
    """Which log they are from."""
    first: int
    lines: Sequence[str]

    @property
    def body(self) -> bytes:
        """The records as JSON lines."""
        return "".join(f"{line}\n" for line in self.lines).encode()


@dataclass(frozen=True, slots=True)
class Receiver:
    """A receiver of records."""

    address: Address
    token: str = field(default="", repr=False)
    key: bytes = field(default=b"", repr=False)

    async def send(self, delivery: RecordBatch, seconds: int) -> None:
        """Deliver records, now, in seconds since 1970; raises NotDelivered."""
        body = delivery.body
        headers = {
            "content-type": "application/x-ndjson",
            LOG: delivery.origin,
            FIRST: str(delivery.first),
            COUNT: str(len(delivery.lines)),
            TIME: str(seconds),
        }
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        if self.key:
            headers[SIGNATURE] = f"sha256={signature(self.key, seconds, delivery.first, body)}"
        await posting.post(self.address, body, headers)


def signature(key: bytes, seconds: int, first: int, body: bytes) -> str:
    """Return the proof that a sender with the key sent a body at that time, in hexadecimal digits."""
    return hmac.new(key, f"{seconds}.{first}.".encode() + body, hashlib.sha256).hexdigest()


async def read(client: Client, namespace: str, place: str) -> Receiver:
    """Return the receiver in a Secret, or in a folder, which has a slash in its name; raises NotDelivered."""
    if "/" in place:
        values, where = await asyncio.to_thread(_of_folder, Path(place)), f"{place}/{URL}"
    else:
        values, where = await _of_secret(client, namespace, place), f"key {URL} of Secret {place}"
    if URL not in values:
        raise NotDelivered(f"there is no {where}: write the address into it")
    address = Address(values[URL].decode(errors="replace"), values.get(CA), where, ("https",))
    token = values.get(TOKEN, b"").decode(errors="replace").strip()
    if not token.isascii() or not token.isprintable():
        raise NotDelivered(f"{TOKEN} beside {where} is no token: it has characters that no header has")
    return Receiver(address, token, values.get(HMAC, b"").strip())


async def _of_secret(client: Client, namespace: str, name: str) -> Mapping[str, bytes]:
    try:
        return (await client.get(SECRETS, name, namespace)).values
    except errors.NotFound:
        raise NotDelivered(f"there is no Secret {name}: create it, with the address as {URL}") from None
    except errors.KubeError as error:
        raise NotDelivered(f"Secret {name} cannot be read: {type(error).__name__}") from None


def _of_folder(folder: Path) -> Mapping[str, bytes]:
    found = {}
    for name in (URL, TOKEN, HMAC, CA):
        try:
            with (folder / name).open("rb") as file:
                found[name] = file.read(MAX_VALUE)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise NotDelivered(f"{folder / name} cannot be read: {error.strerror}") from None
    return found
