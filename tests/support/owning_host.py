"""A host of real files, and tools in memory, that records what it has because of sets, and takes it back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from nodemanager.agent.declared import known_sets
from nodemanager.agent.passes.pruning import Pruner
from nodemanager.agent.passes.stage import bad_sets
from nodemanager.api.common.configset import ConfigSet
from nodemanager.host.files.bucket import Bucket, BucketLimits
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.host.state.ownership_ledger import OwnershipLedger
from nodemanager.host.state.vault import Vault
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan import merge
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.set_doubts import SetsTold
from support.memory_host import Host
from support.root_tree import config_set, literal_contents

NODE = ObjectMeta(name="host", uid="node")


def pruning_set(name: str = "web", **spec: Any) -> ConfigSet:
    """Return a ConfigSet that prunes everything."""
    found = config_set(name, **{"prune": True, "prunePackages": True, **spec})
    return msgspec.structs.replace(found, metadata=ObjectMeta(name=name, uid=f"uid of {name}"))


def plain_set(name: str = "web", **spec: Any) -> ConfigSet:
    """Return the same ConfigSet, which prunes nothing unless it says so."""
    return pruning_set(name, **{"prune": False, "prunePackages": False, **spec})


class OwningHost(Host):
    """A host that keeps a record."""

    ledger: OwnershipLedger
    pruner: Pruner
    bucket: Bucket

    def restart(self) -> None:
        super().restart()
        state = str(self.folder / "state")
        self.ledger = OwnershipLedger(Vault("/", state))
        self.bucket = Bucket(
            self.tree, f"{state}/filebucket", BucketLimits(age=1), pinned=lambda: self.ledger.backups
        )
        records = self.converger.records
        records.ledger, records.bucket = self.ledger, self.bucket
        self.pruner = Pruner(self.converger, self.ledger, grace=0)

    async def has(
        self, *sets: ConfigSet, told: SetsTold | None = None, held: tuple[ResourceId, ...] = ()
    ) -> dict[str, Result]:
        """Do a pass with these sets, which are all that there are; return what was done, by resource."""
        desired = merge.merge(sets)
        told = told or self.told(*sets)
        self.pruner.begin(held, told)
        done = await self.converger.run(desired, literal_contents(desired))
        done += await self.pruner.run(desired, told, bad_sets(done))
        return {str(one.id): one for one in done if one.outcome is not ResourceOutcome.UNCHANGED}

    @staticmethod
    def told(*sets: ConfigSet) -> SetsTold:
        """Return what an API says that has these sets, all of them for this host."""
        return known_sets.told(sets, sets, NODE)

    @property
    def left(self) -> dict[str, str]:
        """What is left behind, and why."""
        return {str(one): entry.left for one, entry in self.ledger.owned.items() if entry.left}

    def path(self, name: str) -> Path:
        """Return a path for a file of this host."""
        return self.folder / name
