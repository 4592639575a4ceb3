"""The half of each host kind that touches the host: how it is observed and how it is changed.

Part of the table in `plan/stages.py`, which checks when this module is loaded that no kind lacks its half.
What hears of changes by itself is registered in `host/watches/by_kind.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nodemanager.host import apply
from nodemanager.host.files.file_batch import FileBatch, FileTools
from nodemanager.host.kind_parts import HostPart, HostParts, Work
from nodemanager.host.results import Result
from nodemanager.plan.facts import Facts
from nodemanager.plan.needs import ServiceNeeds
from nodemanager.plan.resources import EXEC, FILE, PACKAGE, SERVICE
from nodemanager.plan.stages import KINDS
from nodemanager.plan.steps import Step


async def _apply_files(steps: Sequence[Step], work: Work) -> list[Result]:
    tools = FileTools(work.observer.tree, work.bucket, work.tools.journal, work.observer.run)
    batch = FileBatch(tools, aborted=set(work.broken_off))
    results = await batch.apply(steps)
    work.aborted.update(batch.aborted)
    for path, digest in batch.kept.items():
        work.replaced.setdefault(path, digest)
    return results


async def _see_services(needed: ServiceNeeds, work: Work) -> Facts:
    seen = await work.observer.see_services(needed, work.given.pending)
    if work.unread and any(fact.stale for fact in seen.services.values()):
        await work.refresh()  # they are stale because of us, and that is no drift
        seen = await work.observer.see_services(needed, work.given.pending)
    return seen


async def _apply_services(steps: Sequence[Step], work: Work) -> list[Result]:
    return await apply.apply_services(steps, work.tools, work.unread if work.given.repair else None)


PARTS: Final[HostParts] = KINDS.each(
    "part in host/stages.py",
    {
        PACKAGE: HostPart(
            lambda needed, work: work.observer.see_packages(needed),
            lambda steps, work: apply.apply_packages(steps, work.tools),
            lambda steps, work: apply.rehearse_packages(steps, work.tools),
        ),
        FILE: HostPart(
            lambda needed, work: work.observer.see_files(needed, whole=not work.given.repair), _apply_files
        ),
        SERVICE: HostPart(_see_services, _apply_services),
        EXEC: HostPart(
            lambda needed, work: work.observer.see_executions(needed, work.given.pending),
            lambda steps, work: apply.apply_executions(steps, work.tools),
        ),
    },
)
