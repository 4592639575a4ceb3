"""Tidies up at the beginning of a pass: what is owed to nobody, and what an earlier process of ours left."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from nodemanager.agent.passes import noting
from nodemanager.agent.passes.host_records import HostRecords
from nodemanager.host.apply import Tools
from nodemanager.host.files import staging
from nodemanager.host.files.tree import Tree
from nodemanager.plan.desired import Desired
from nodemanager.plan.resources import ResourceId

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Tidying:
    """Remembers where it has tidied up."""

    _swept: set[str] = field(default_factory=set)
    _tidied: bool = False
    """Whether a pass of this process has tidied up."""

    def tidy(
        self, desired: Desired, owed: Iterable[ResourceId], tools: Tools, tree: Tree, records: HostRecords
    ) -> None:
        """Drop what is owed to none of these, and what an earlier process of ours left when it was killed."""
        try:
            tools.journal.keep_only([*owed, *desired.held])
            if not self._tidied:
                tools.runs.sweep(tools.journal.started())
        except OSError as error:
            log.warning("%s", error)
        folders = {item.declaration.path.rpartition("/")[0] or "/" for item in desired.files}
        folders |= noting.owned_folders(records.ledger)
        folders.add(tools.journal.folder)
        if records.bucket is not None:
            folders.add(records.bucket.folder)
        # Where somebody writes just now, we look again: it may be killed, too.
        busy = {folder for folder in folders - self._swept if staging.sweep(tree, folder).in_use}
        self._swept, self._tidied = folders - busy, True
        tree.forget()
