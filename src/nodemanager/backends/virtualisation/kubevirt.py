"""KubeVirt: its instances and their migrations, in the namespaces that a profile names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nodemanager.api.edge import capabilities
from nodemanager.backends.asking import ask_all
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.fleet.edge.machines import MachineFacts, RunningMachine
from nodemanager.kube import conditions
from nodemanager.kube.objects import ObjectMeta, Resource, Struct

NAME: Final = "kubevirt"
GROUP: Final = "kubevirt.io"
_OVER: Final = ("Succeeded", "Failed")
_WORDS: Final = {conditions.TRUE: True, conditions.FALSE: False}
"""The meaning of a condition's word; any other word means unknown."""


class MigrationState(Struct):
    """A migration of an instance, the last one."""

    start_timestamp: str | None = None
    end_timestamp: str | None = None


class InstanceCondition(Struct):
    """A condition of an instance; its times are often null, and nothing follows from them."""

    type: str = ""
    status: str = ""


class InstanceStatus(Struct):
    """The state of an instance."""

    phase: str = ""
    node_name: str = ""
    conditions: list[InstanceCondition] | None = None
    migration_state: MigrationState | None = None


class Instance(Struct):
    """VirtualMachineInstance, as far as it is looked at."""

    metadata: ObjectMeta = ObjectMeta()
    status: InstanceStatus = InstanceStatus()


class MigrationStatus(Struct):
    """The progress of a migration."""

    phase: str = ""


class Migration(Struct):
    """VirtualMachineInstanceMigration, as far as it is looked at."""

    metadata: ObjectMeta = ObjectMeta()
    status: MigrationStatus = MigrationStatus()


INSTANCES: Final = Resource(GROUP, "v1", "VirtualMachineInstance", "virtualmachineinstances", Instance)
MIGRATIONS: Final = Resource(
    GROUP, "v1", "VirtualMachineInstanceMigration", "virtualmachineinstancemigrations", Migration
)


class KubeVirt:
    """The virtual machines of some namespaces."""

    name = NAME
    capabilities = capabilities.VIRTUALISATION.choices[NAME]

    def __init__(self, client: Client, namespaces: Sequence[str]) -> None:
        self._client, self._namespaces = client, namespaces

    async def observe(self) -> MachineFacts:
        """Look at instances and migrations."""
        machines: list[RunningMachine] = []
        moves: list[str] = []
        for space in self._namespaces:
            where = Selection(space)
            found = await ask_all(
                f"list virtual machines in {space}", self._client, INSTANCES, where, len(machines)
            )
            machines += [_machine(one) for one in found]
            ways = await ask_all(f"list migrations in {space}", self._client, MIGRATIONS, where, len(moves))
            # One without a phase has not begun, and has not ended either.
            moves += [f"{space}/{one.metadata.name}" for one in ways if one.status.phase not in _OVER]
        return MachineFacts(tuple(machines), tuple(moves))


def _machine(one: Instance) -> RunningMachine:
    status, state = one.status, one.status.migration_state
    said = {condition.type: condition.status for condition in status.conditions or ()}
    return RunningMachine(
        f"{one.metadata.namespace}/{one.metadata.name}",
        status.phase,
        status.node_name,
        _WORDS.get(said.get("Ready", "")),
        bool(_WORDS.get(said.get("Paused", ""))),
        _WORDS.get(said.get("LiveMigratable", "")),
        state is not None and state.start_timestamp is not None and state.end_timestamp is None,
    )
