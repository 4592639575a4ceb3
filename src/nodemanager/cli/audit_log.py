"""Where `nodemanager audit` reads the log: from the API, from a file, or from the folder of an export."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS, NAME, AuditCheckpointSpec
from nodemanager.api.audit.auditsegment import AUDIT_SEGMENTS, AuditSegmentSpec
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.cli.settings import connect
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.fleet.audit import aspects, evidence, observed
from nodemanager.fleet.audit.changes import ObjectId
from nodemanager.fleet.audit.observed import SeenObject
from nodemanager.kube import errors
from nodemanager.tlog import checkpoints, notes

CLUSTER: Final = "cluster"
"""Instead of a file: what is in the API."""
CHECKPOINT_FILE: Final = "checkpoint"
PATTERN: Final = "segment-*.jsonl"
OPEN: Final = "open-*.jsonl"
"""In a copy in object storage: the end of the log, one object for each time it was stored."""
MAX_LINE: Final = 1 << 17
"""Bytes of a line; a record, a head and a checkpoint are far shorter."""


@dataclass(frozen=True, slots=True)
class LogSource:
    """A log, as lines that can be read once."""

    name: str
    lines: Iterator[bytes]
    newest: str = ""
    """A checkpoint that was kept beside it."""


async def of_cluster(settings: connect.Settings) -> LogSource:
    """Return what is in the API."""
    async with connect.connect(settings) as client:
        specs, published = await read(client, settings.namespace)
    lines = evidence.lines_of_log(specs, published.keys, published.note)
    return LogSource(f"namespace {settings.namespace}", lines, published.note)


async def read(client: Client, namespace: str) -> tuple[list[AuditSegmentSpec], AuditCheckpointSpec]:
    """Return the segments and the checkpoint of a namespace."""
    try:
        published = (await client.get(AUDIT_CHECKPOINTS, NAME, namespace)).spec
    except errors.NotFound:
        published = AuditCheckpointSpec()  # no key could sign yet; there may be records
    page = await client.list(AUDIT_SEGMENTS, Selection(namespace))
    if not published.size and not page.items:
        raise click.ClickException(
            f"cannot read the audit log of namespace {namespace}: there is none; it begins when an operator"
            " runs there"
        )
    return sorted((one.spec for one in page.items), key=lambda spec: spec.index), published


async def hosts(settings: connect.Settings) -> list[tuple[ObjectId, SeenObject]]:
    """Return what hosts tell of their own chains now."""
    resource = next(one for one in observed.kinds_seen() if one.kind == MANAGED_NODES.kind)
    async with connect.connect(settings) as client:
        page = await client.list(resource, Selection(settings.namespace))
    found = [(one.metadata, aspects.look(resource.kind, one).seen) for one in page.items]
    return [
        (ObjectId(resource.kind, meta.namespace, meta.name), seen) for meta, seen in found if seen is not None
    ]


def source(where: str, settings: connect.Settings) -> LogSource:
    """Return what is in a file or a folder, or in the API; raises ClickException."""
    if where == CLUSTER:
        return asyncio.run(of_cluster(settings))
    path = Path(where)
    if not path.exists():
        raise click.ClickException(f"cannot read {where}: there is no such file; `cluster` means the cluster")
    return of_path(path)


def of_path(path: Path) -> LogSource:
    """Return what is in a file, or in a folder that an operator exports to."""
    if path.is_dir():
        parts = _parts(path)
        if not parts:
            raise click.ClickException(f"cannot read {path}: there is no {PATTERN} in it")
        kept = path / CHECKPOINT_FILE
        newest = kept.read_text(encoding="utf-8") if kept.exists() else ""
        return LogSource(str(path), _lines(parts), newest)
    return LogSource(str(path), _lines([path]))


def _parts(folder: Path) -> list[Path]:
    """Return the files of a copy in their order: the segments, and the newest end behind them."""
    parts = sorted(folder.glob(PATTERN))
    sealed = parts[-1].stem.rpartition("-")[2] if parts else ""
    ends = [one for one in sorted(folder.glob(OPEN)) if one.stem.split("-")[1] > sealed]
    return [*parts, *ends[-1:]]


def _lines(paths: list[Path]) -> Iterator[bytes]:
    return itertools.chain.from_iterable(_some_lines(paths))


def _some_lines(paths: list[Path]) -> Iterator[list[bytes]]:
    """Return the lines of files, many at once; one that is longer than MAX_LINE comes in pieces."""
    for path in paths:
        with path.open("rb") as file:
            rest = b""
            while block := file.read(MAX_LINE):
                lines = block.split(b"\n")
                lines[0] = rest + lines[0]
                rest = lines.pop()
                yield lines
                if len(rest) >= MAX_LINE:
                    yield [rest]
                    rest = b""
            if rest:
                yield [rest]


def expected(note: str) -> dict[int, bytes]:
    """Return the root that a checkpoint has, by its size; raises ClickException."""
    if not note:
        return {}
    try:
        point = checkpoints.read(notes.read(note).text)
    except notes.BadNote as error:
        raise click.ClickException(str(error)) from None
    return {point.size: point.root}


def keys(texts: tuple[str, ...]) -> list[notes.Key]:
    """Return keys that the user gave, as texts or as files with one; raises ClickException."""
    found = []
    for text in texts:
        path = Path(text)
        try:
            found.append(notes.read_key(path.read_text(encoding="utf-8") if path.is_file() else text))
        except notes.BadNote as error:
            raise click.ClickException(str(error)) from None
    return found
