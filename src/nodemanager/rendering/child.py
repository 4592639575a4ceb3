"""The process that renders: started with nothing, it gives up the rest, and answers until the stream ends.

    python -ISc BOOT PARENT CPU MEMORY PATH...        (see `process.command`)

It speaks on descriptor 0, both ways. All that templates may need is imported first, as from then on no file
can be opened; but for the static program, which has all modules in itself. Nothing else is, as a small host
pays for every module.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Final

import msgspec

from nodemanager.plan.templates import jobs
from nodemanager.rendering import confinement, frames
from nodemanager.rendering.limits import MIB

CHANNEL: Final = 0
_DATA_COST: Final = 20
"""Bytes of memory that a byte of a request may become as objects, and be copied to once."""
_RESERVE: Final = 32 * MIB
NEEDED: Final = (
    "nodemanager.plan.templates.gotemplate", "gotpl.runtime.gofmt",
    "nodemanager.plan.templates.jinja", "jinja2.debug",
    "nodemanager.plan.templates.functions.yaml_text", "yaml.cyaml",
    "nodemanager.plan.templates.functions.toml_text", "csv",
    "encodings.ascii", "encodings.latin_1", "encodings.unicode_escape", "difflib", "linecache", "traceback",
)  # fmt: skip
"""Also what libraries import only when they need it."""


def main() -> None:
    """Prepare, say how that went, and serve."""
    parent, cpu, memory = (int(each) for each in sys.argv[1:4])
    try:
        if not getattr(sys, "frozen", False):  # the static program needs no file for a module, then or later
            for name in NEEDED:
                importlib.import_module(name)
        confinement.prepare()
        kept, why = confinement.confine(parent), ""
    except Exception as error:  # noqa: BLE001 - nobody reads what we write to stderr
        kept, why = [], f"{type(error).__name__}: {error}"
    _send(msgspec.msgpack.encode((kept, why)))
    if why:
        sys.exit(1)
    if getattr(sys, "frozen", False):
        importlib.import_module(NEEDED[0])  # what most templates need, while the first one is on its way
    while (request := _receive()) is not None:
        # Room to decode it, then room for what templates make of it: a limit counts from what is in use.
        confinement.limit_memory(_RESERVE + _DATA_COST * len(request))
        todo = jobs.decoded_request(request)
        confinement.limit_memory(memory + _DATA_COST * len(request))
        del request
        if not _answer(todo, cpu):
            return


def _answer(todo: list[jobs.Job], cpu: int) -> bool:
    """Answer one after the other; return False once a limit was met."""
    confinement.limit_processor(cpu)
    before = _seconds()
    for answer in jobs.answers(todo):
        now = _seconds()
        cost = msgspec.structs.replace(answer, seconds=now - before, peak=confinement.peak())
        _send(jobs.encoded_answer(cost))
        if answer.exhausted:
            return False
        before = now
        confinement.limit_processor(cpu)
    return True


def _seconds() -> float:
    used = os.times()
    return used.user + used.system


def _send(message: bytes) -> None:
    rest = memoryview(frames.framed(message))
    while rest:
        rest = rest[os.write(CHANNEL, rest) :]


def _receive() -> bytes | None:
    head = _read(frames.HEAD)
    return None if head is None else _read(frames.length(head, frames.REQUEST_MAX))


def _read(size: int) -> bytes | None:
    """Read so many bytes, or return None where the stream ends."""
    read = bytearray()
    while len(read) < size:
        chunk = os.read(CHANNEL, min(size - len(read), MIB))
        if not chunk:
            return None
        read += chunk
    return bytes(read)
