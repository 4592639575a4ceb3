"""The half of each host kind that touches the host: how it is observed and how it is changed.

Part of the table in `plan/stages.py`, which checks when this module is loaded that no kind lacks its half.
What hears of changes by itself is registered in `host/watches/by_kind.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from nodemanager.host import apply, twins
from nodemanager.host.files import file_facts
from nodemanager.host.files.file_batch import FileBatch, FileTools
from nodemanager.host.files.tree import Tree
from nodemanager.host.kind_parts import HostPart, HostParts, StageWork
from nodemanager.host.process.threads import in_thread
from nodemanager.host.results import Result
from nodemanager.plan.facts import Facts, Kind
from nodemanager.plan.needs import FileNeeds, ServiceNeeds
from nodemanager.plan.resources import EXEC, FILE, PACKAGE, SERVICE
from nodemanager.plan.stages import KINDS
from nodemanager.plan.steps import Blocked, FileStep, Step


async def _see_files(needed: FileNeeds, work: StageWork) -> Facts:
    part = work.given.repair or work.given.layout is not None
    return await work.observer.see_files(needed, whole=not part)


async def _complete_files(steps: Sequence[Step], work: StageWork) -> list[Step]:
    """Read the files of which only the size was looked at, as far as they are backed up."""
    unread = [
        one
        for one in steps
        if isinstance(one, FileStep) and one.before.kind is Kind.FILE and not one.before.digest
    ]
    if not unread or work.bucket is None:
        return list(steps)
    tree, limit = work.observer.tree, work.bucket.largest
    whole = await in_thread(lambda: {one.id: _completed(one, tree, limit) for one in unread})
    return [whole.get(one.id, one) for one in steps]


def _completed(step: FileStep, tree: Tree, limit: int) -> Step:
    try:
        digest = file_facts.digest_of(tree, step.path, limit)
    except OSError as error:
        said = f"cannot read {step.path}, which is to be replaced: {error.strerror or error}"
        return Blocked(id=step.id, sources=step.sources, reason=said)
    return msgspec.structs.replace(step, before=replace(step.before, digest=digest))


async def _apply_files(steps: Sequence[Step], work: StageWork) -> list[Result]:
    tools = FileTools(work.observer.tree, work.bucket, work.tools.journal, work.observer.run)
    batch = FileBatch(tools, aborted=set(work.broken_off))
    results = await batch.apply(steps)
    work.aborted.update(batch.aborted)
    for path, digest in batch.kept.items():
        work.replaced.setdefault(path, digest)
    return results


async def _see_services(needed: ServiceNeeds, work: StageWork) -> Facts:
    seen = await work.observer.see_services(needed, work.given.pending)
    if work.unread and any(fact.stale for fact in seen.services.values()):
        await work.refresh()  # they are stale because of us, and that is no drift
        seen = await work.observer.see_services(needed, work.given.pending)
    return seen


async def _apply_services(steps: Sequence[Step], work: StageWork) -> list[Result]:
    return await apply.apply_services(steps, work.tools, work.unread if work.given.repair else None)


PARTS: Final[HostParts] = KINDS.each(
    "part in host/stages.py",
    {
        PACKAGE: HostPart(
            lambda needed, work: work.observer.see_packages(needed),
            lambda steps, work: apply.apply_packages(steps, work.tools),
            lambda steps, work: apply.rehearse_packages(
                steps, work.tools, alone=work.given.layout is not None
            ),
            twins=twins.of_packages,
        ),
        FILE: HostPart(_see_files, _apply_files, complete=_complete_files, twins=twins.of_files),
        SERVICE: HostPart(_see_services, _apply_services, twins=twins.of_services),
        EXEC: HostPart(
            lambda needed, work: work.observer.see_executions(needed, work.given.pending),
            lambda steps, work: apply.apply_executions(steps, work.tools),
        ),
    },
)
