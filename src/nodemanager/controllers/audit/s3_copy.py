"""A copy of the log in object storage that speaks S3: objects are only ever created, so history stays.

    segment-000000000000.jsonl                        a segment that is sealed
    open-000000000001-000000000042-1a2b3c4d.jsonl     the one that is not, when there were 42 records
    key-c74f20a3                                      a public key that has signed

Each is stored only if there is no object of its name (If-None-Match: *). One that is there already
is read and compared: an equal one is ours, from before we were stopped; a different one is never overwritten.
Address, credentials and region come from the environment, as for other programs: AWS_ENDPOINT_URL,
AWS_REGION, AWS_ACCESS_KEY_ID, AWS_WEB_IDENTITY_TOKEN_FILE, or the service of the machine.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from nodemanager.controllers.audit.copies import Newest
from nodemanager.controllers.audit.storing import LostTrack
from nodemanager.kube import errors, wording

if TYPE_CHECKING:
    from obstore.store import S3Store

SCHEME: Final = "s3"
SHOW_EVERY: Final = timedelta(minutes=1)
"""How often the end of the log is stored at most, because each time makes another object."""
TIMEOUT: Final = 60.0
"""Seconds for one object, including all tries."""
TRIES: Final = 4
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_CODE: Final = re.compile(r"<Code>([A-Za-z0-9]{1,64})</Code>")
_REMEDIES: Final = {
    "NoSuchBucket": "create the bucket, or correct --audit-export",
    "RequestTimeTooSkewed": "set the clock of the operator's machine right",
    "AccessDenied": "let it get and put objects there",
    "InvalidAccessKeyId": "see AWS_ACCESS_KEY_ID, or the role of the operator",
    "SignatureDoesNotMatch": "see AWS_SECRET_ACCESS_KEY, and AWS_REGION",
    "SlowDown": "the storage takes no more just now; it is tried again",
}
_REMEDY: Final = "see AWS_ENDPOINT_URL, AWS_REGION and the credentials of the operator"


class S3Copy:
    """Copies to a bucket."""

    def __init__(self, url: str) -> None:
        """Raise ConfigError if the address is not valid, or the package for it is missing."""
        self.name = url.rstrip("/")
        self._store = _store(url)
        self._shown_at: datetime | None = None
        self._keys: set[str] = set()

    async def keep(self, name: str, data: bytes) -> None:
        """Store a segment that does not change any more; raises LostTrack if that is not possible."""
        await self._create(f"{name}.jsonl", data)

    async def show(self, newest: Newest, now: datetime) -> bool:
        """Store the open segment; return whether that was done, or is too early. Raises LostTrack."""
        if self._shown_at is not None and timedelta(0) <= now - self._shown_at < SHOW_EVERY:
            return False
        for key in newest.keys:
            if key not in self._keys:
                await self._create(f"key-{key.split('+')[1]}", f"{key}\n".encode())
                self._keys.add(key)
        if newest.segment:
            index, digest = newest.segment.rpartition("-")[2], hashlib.sha256(newest.data).hexdigest()
            await self._create(f"open-{index}-{newest.size:012d}-{digest[:8]}.jsonl", newest.data)
        self._shown_at = now
        return True

    async def _create(self, name: str, data: bytes) -> None:
        import obstore.exceptions as refused

        try:
            async with asyncio.timeout(TIMEOUT):
                try:
                    await self._store.put_async(name, data, mode="create")
                except refused.AlreadyExistsError:
                    found = await self._store.get_async(name)
                    same = found.meta["size"] == len(data)  # what is larger than ours is not even read
                    if not same or bytes(await found.bytes_async()) != data:
                        raise self._failed(
                            f"{name} is there, and not what we would write: somebody changed it, or it is of"
                            " another log; it is not overwritten. Keep it, and give --audit-export another"
                            " prefix"
                        ) from None
        except TimeoutError:
            raise self._failed(f"no answer within {TIMEOUT:g} s; {_REMEDY}") from None
        except (refused.BaseError, OSError, ValueError) as error:
            raise self._failed(_said(error)) from None

    def _failed(self, why: str) -> LostTrack:
        return LostTrack(f"cannot export the audit log to {self.name}: {why}")


def _said(error: Exception) -> str:
    """Return the error: the code of the other side, where its answer has one."""
    text = str(error)
    code = found[1] if (found := _CODE.search(text)) else ""
    if code:
        return f"{code}; {_REMEDIES.get(code, _REMEDY)}"
    return f"{wording.flat(text.partition(chr(10))[0], 200)}; {_REMEDY}"


def _store(url: str) -> S3Store:
    parts = urlsplit(url)
    if parts.scheme != SCHEME or not _BUCKET.fullmatch(parts.netloc) or parts.query or parts.fragment:
        raise errors.ConfigError(f"cannot export the audit log to {url[:200]}: write s3://BUCKET/PREFIX")
    try:
        from obstore import store
    except ImportError as error:
        raise errors.ConfigError(
            f"cannot export the audit log to {url}: the Python package obstore is not installed; install"
            " nodemanager[s3], or use the container image"
        ) from error
    # No client_options, which would override those of the environment. As it is, it waits 5 s for a
    # connection
    # and 30 s for an answer.
    return store.S3Store(
        parts.netloc,
        prefix=parts.path.strip("/") or None,
        retry_config={"max_retries": TRIES - 1, "retry_timeout": timedelta(seconds=TIMEOUT / 2)},
    )
