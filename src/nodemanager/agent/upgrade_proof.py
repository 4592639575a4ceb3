"""The new program after an upgrade proves that it works: without that proof, the old one comes back.

A program has proven itself when it has read the state of the host, done one pass, and reported to the API
that it has. If the API did not answer the old program, either, one pass is enough.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from nodemanager.agent.assembly import ManagedHost
from nodemanager.host.files.tree import Tree
from nodemanager.host.process.threads import in_thread
from nodemanager.host.self_update import program_file
from nodemanager.host.self_update.records import Intent, UpgradeRecords

log = logging.getLogger(__name__)


@dataclass(slots=True)
class UpgradeProof:
    """What this process has to prove."""

    records: UpgradeRecords
    is_running: Callable[[str], bool] = program_file.is_running
    """Tells whether this process is the program at a path."""
    _owed: Intent | None = None

    def look(self) -> None:
        """Find out whether this process is the new program of an upgrade; later ones are of others."""
        intent = self.records.pending()
        if intent is None or not self.is_running(intent.program):
            return
        try:
            # Also a third one: who has put that there meanwhile does not want the old one back.
            if program_file.sha256_of(intent.program) != intent.old:
                log.info("new: upgraded from %s, which comes back unless this version works", intent.before)
                self._owed = intent
        except OSError as error:
            log.warning("cannot read %s, so nothing is proven: %s", intent.program, error)

    async def passed(self, told: bool) -> None:
        """Take note that we were over the host, and whether the API was told."""
        owed = self._owed
        if owed is None or (owed.report and not told):
            return
        try:
            await in_thread(lambda: self.records.prove(owed))
        except OSError as error:
            log.warning("cannot write down that this program works: %s; the next pass tries again", error)
            return
        self._owed = None
        log.info("proven: the upgrade from %s to %s is over", owed.before, owed.after)


def of_host(host: ManagedHost) -> UpgradeProof:
    """Return what this process has to prove on a host; in an image, or from a container, nothing ever."""
    proof = UpgradeProof(UpgradeRecords(Tree(host.tree.root), host.state))
    if host.tree.root == "/":
        proof.look()
    return proof
