"""What the API says of ConfigSets to a host that has things because of them: which there are, and which went.

A list that failed says nothing. One that has none of the sets that this host knew says so after a while only:
somebody may have emptied the namespace by mistake, or the host may talk to another API than before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from nodemanager.agent.declared.sources import Sources
from nodemanager.api.common import choosing
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet, ConfigSetSpec, is_leaving
from nodemanager.api.common.rollout import is_staged
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.host.state.ownership_ledger import LedgerError, OwnershipLedger
from nodemanager.kube import errors, times
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan import ownership
from nodemanager.plan.ownership import Prune, SetRecord, SetsTold

log = logging.getLogger(__name__)
CONFIRM_SECONDS: Final = 1800.0
"""So long is waited where all sets are gone at once: by then, what GitOps keeps is back."""


def policy(spec: ConfigSetSpec) -> Prune:
    """Return what of a set is taken back when it does not declare it any more."""
    if not spec.prune:
        return Prune.NOTHING
    return Prune.PACKAGES if spec.prune_packages else Prune.RESOURCES


def told(
    everything: Sequence[ConfigSet], chosen: Sequence[ConfigSet], host: ObjectMeta,
    unreadable: Mapping[str, str] | None = None,
) -> SetsTold:  # fmt: skip
    """Return what follows from all sets that there are, and from those of them that are for a host."""
    here = {one.metadata.name: policy(one.spec) for one in chosen}
    policies = {one.metadata.name: policy(one.spec) for one in everything} | here
    unsure = dict(unreadable or {})
    for one in everything:
        if one.metadata.name not in here and _is_undecided(one, host):
            unsure[one.metadata.name] = "has a revision for this host that is not known yet"
    leaving = frozenset(one.metadata.name for one in everything if is_leaving(one))
    return SetsTold(
        policies | dict.fromkeys(unsure, Prune.NOTHING), frozenset(here), leaving, unsure, node=host.uid,
        records={one.metadata.name: SetRecord(one.metadata.uid, policy(one.spec)) for one in chosen},
        uids=frozenset(one.metadata.uid for one in everything),
    )  # fmt: skip


async def names_of(client: Client, namespace: str) -> frozenset[str]:
    """Return the names of all sets, asked for now."""
    page = await client.list(CONFIG_SETS, Selection(namespace))
    return frozenset((*(one.metadata.name for one in page.items), *(one.key.name for one in page.malformed)))


def _is_undecided(config_set: ConfigSet, host: ObjectMeta) -> bool:
    """Tell whether a set in stages is not for a host only because nobody knows which revision is."""
    if not is_staged(config_set.spec.rollout) or is_leaving(config_set):
        return False
    revision = choosing.chosen(config_set, host).revision
    return revision is None or choosing.is_meant(revision, host.labels)


@dataclass(slots=True)
class KnownSets:
    """Asks the API, and doubts what it says if that is too bad to be true."""

    sources: Sources
    ledger: OwnershipLedger
    names: Callable[[], Awaitable[frozenset[str]]]
    """Lists the names of all sets anew."""
    again: Callable[[float], None] = lambda _seconds: None
    """Asks for another pass after so many seconds."""
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    confirm: float = CONFIRM_SECONDS
    _since: float | None = None
    """Since when all sets are gone."""

    async def ask(
        self, everything: Sequence[ConfigSet], chosen: Sequence[ConfigSet], host: ObjectMeta
    ) -> SetsTold | None:
        """Return what the API says now; None = it says nothing, so nothing is taken back."""
        sources = self.sources
        if not sources.live or sources.reachability.offline or sources.config_sets.refused:
            self._since = None
            return None
        unreadable = {
            key.name: f"cannot be read: {why}" for key, why in sources.config_sets.malformed.items()
        }
        found = told(everything, chosen, host, unreadable)
        try:
            doubt = await self._doubt(found)
            return replace(found, doubt=doubt, node=self.ledger.node if doubt else host.uid)
        except LedgerError as error:
            log.warning("cannot tell what nobody declares any more: %s", error)
            return None

    async def _doubt(self, found: SetsTold) -> str:
        """Return why sets that are away may be so by mistake; empty = enough speaks for it."""
        ledger = self.ledger
        why = ownership.suspicion(ledger.owned, ledger.sets, ledger.node, found)
        if not why:
            self._since = None
            return ""
        now = self.clock()
        if self._since is None:
            self._since = now
        left = self._since + self.confirm - now
        if left > 0:
            self.again(left + 1)
            until = times.rfc3339_unix(self.wall() + left)
            return f"{why}; if that is still so at {until}, it is meant"
        try:  # what was watched may be old: what is deleted for good has to be missing from a new list
            there = ledger.sets.keys() & (await self.names() - found.policies.keys())
        except errors.KubeError as error:
            return f"{why}, and the API does not confirm it: {error}"
        return f"ConfigSet {min(there)} is there after all" if there else ""
