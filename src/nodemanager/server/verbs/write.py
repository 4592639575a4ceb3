"""Creating and updating objects. Every write is a list of named steps; the lists are here."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from nodemanager.kube import errors
from nodemanager.kube.objects import Untyped
from nodemanager.server.http import refusals
from nodemanager.server.hub import ApiAnswer, ApiCall, Hub
from nodemanager.server.verbs import decoding, read, write_steps
from nodemanager.server.verbs.decoding import decode, normalise
from nodemanager.server.verbs.options import WriteOptions, write_options
from nodemanager.server.verbs.pending_write import PendingWrite, Step, advance
from nodemanager.server.verbs.storing import store
from nodemanager.server.verbs.write_steps import (
    admit,
    ask_policies,
    check,
    default,
    identify,
    mutate,
    own,
    prepare,
)
from nodemanager.store.base import Mismatch, StoreRecord

GENERATE_TRIES: Final = 8
DECODED: Final[tuple[Step, ...]] = (
    identify, default, own, mutate, prepare, admit, check, ask_policies, store,
)  # fmt: skip
"""What every write does once it is decoded, and once it is known what it replaces."""
UNCHECKED: Final = tuple(step for step in DECODED if step is not check)
"""The same for what comes with the program: its tests have checked that."""


async def create(hub: Hub, call: ApiCall, steps: Sequence[Step] = DECODED) -> ApiAnswer:
    """Answer a POST to a collection."""
    decoded = await advance(PendingWrite(hub, call, write_options(call, "CreateOptions")), (decode,))
    if not decoded.obj["metadata"].get("name"):
        for _ in range(GENERATE_TRIES - 1):
            with contextlib.suppress(errors.AlreadyExists):  # the next name at random may be free
                return await finished(decoded, steps)
    return await finished(decoded, steps)


async def update(hub: Hub, call: ApiCall) -> ApiAnswer:
    """Answer a PUT to an object or to one of its subresources."""
    # What cannot be read is refused even if there is nothing to update, so it is decoded first.
    found = await advance(PendingWrite(hub, call, write_options(call, "UpdateOptions")), (decode, find))
    try:
        return await finished(found)
    except Mismatch as error:
        with refusals.warned(found.warnings):
            raise refusals.modified(call.kind, call.info.name) from error


async def find(write: PendingWrite) -> PendingWrite:
    """Find the object that an update replaces; some kinds are created if it does not exist."""
    call, obj = write.call, {**write.obj, "metadata": {**write.obj["metadata"]}}
    decoding.check_names(call, obj)
    record = write.hub.store.get(call.key)
    if record is not None or not call.kind.upserts or call.info.subresource:
        return replace(write, obj=obj).over(read.find(write.hub, call))
    if uid := obj["metadata"].get("uid"):
        raise write_steps.other_incarnation(call, uid, "")
    if not write.options.dry_run:  # the store gives another one
        obj["metadata"].pop("resourceVersion", None)
    return replace(write, obj=obj)


async def finished(decoded: PendingWrite, steps: Sequence[Step] = DECODED) -> ApiAnswer:
    """Take a decoded write through all other steps; Mismatch means that another writer was faster."""
    done = await advance(decoded, steps)
    if done.answer is None:
        raise AssertionError("the last step stores and answers")
    return done.answer


async def add(hub: Hub, call: ApiCall, obj: Untyped, options: WriteOptions) -> ApiAnswer:
    """Store a new object that the server made itself."""
    return await finished(await normalise(PendingWrite(hub, call, options, obj)))


async def save(
    hub: Hub, call: ApiCall, record: StoreRecord, obj: Untyped, options: WriteOptions
) -> ApiAnswer:
    """Replace the object of a record by one that the server made itself; Mismatch as above."""
    return await finished(await normalise(PendingWrite(hub, call, options, obj).over(record)))
