"""Secrets and ConfigMaps that steps refer to: read when needed, and not kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from nodemanager.agent.declared.contents import Contenter
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.declared.sources import DeclaredSources
from nodemanager.agent.link.api_link import ApiLink
from nodemanager.agent.tasks.programs import Values
from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.task_steps import SecretVariable
from nodemanager.host.base import HostError
from nodemanager.kube import errors
from nodemanager.kube.core import CONFIG_MAPS, SECRETS
from nodemanager.kube.objects import ObjectMeta, Resource
from nodemanager.plan import templates
from nodemanager.plan.desired import Contents, Desired
from nodemanager.rendering import referring
from nodemanager.rendering.renderer import Rendering

PAUSE: Final = 2.0
"""Seconds after which an API that did not answer is asked again."""
PATIENCE: Final = 60.0
"""Seconds that an API may be away before a file that needs it fails."""
_WRONG: Final = (errors.BadRequest, errors.Invalid, errors.Unauthorized)


@dataclass(frozen=True, slots=True)
class TaskReferences:
    """Reads what steps refer to."""

    link: ApiLink
    sources: DeclaredSources
    renderer: Rendering
    config_sets: Callable[[], Awaitable[Sequence[ConfigSet]]]
    """Returns the sets of this host: files of tasks use their data, too."""

    async def secrets(self, wanted: Sequence[SecretVariable], seconds: float) -> Values:
        """Return values by the names of their variables."""
        if wanted and (why := self.sources.reachability.withheld()):
            raise HostError(f"cannot use Secret {wanted[0].secret}: {why}")
        known: dict[str, Any] = {}
        for name in dict.fromkeys(one.secret for one in wanted):
            known[name] = await self._read(SECRETS, name, seconds)
        values: dict[str, str] = {}
        for one in wanted:
            found = known[one.secret]
            if found is None:
                raise HostError(
                    f"cannot set {one.name}: Secret {one.secret} does not exist, or this host may not read it"
                )
            if one.key not in found:
                raise HostError(f"cannot set {one.name}: Secret {one.secret} has no key {one.key}; add it")
            values[one.name] = found[one.key].decode("utf-8", "surrogateescape")
        return values

    async def contents(self, desired: Desired) -> Contents:
        """Return what files contain, made as for a pass."""
        files = [item.declaration for item in desired.files]
        reads_data = any(map(templates.reads_data, files))
        layered = tuple(map(_data_of, await self.config_sets())) if reads_data else ()
        sets = [*layered, ConfigSet(metadata=ObjectMeta(name="task"), spec=ConfigSetSpec(files=files))]
        node = self.node()
        needed = await referring.referenced(self.renderer, sets, node)
        secrets = {name: await self._read(SECRETS, name, PATIENCE) for name in needed.secrets}
        maps = {name: await self._read(CONFIG_MAPS, name, PATIENCE) for name in needed.config_maps}
        inputs = DeclaredInputs(
            layered,
            nodes=tuple(self.link.nodes.values()),
            secrets={name: values for name, values in secrets.items() if values is not None},
            config_maps={name: values for name, values in maps.items() if values is not None},
            withheld=self.sources.reachability.withheld(),
        )
        return await Contenter(self.renderer).make(desired, inputs, node)

    def node(self) -> ManagedNode:
        """Return our ManagedNode as it is known here."""
        known = self.link.nodes.get(self.link.key) or self.sources.memory.node
        return known or ManagedNode(metadata=ObjectMeta(name=self.link.key.name))

    async def _read(self, resource: Resource[Any], name: str, seconds: float) -> Any:
        """Return the values of an object, None if there is none for us; an outage is waited for."""
        found = await self.find(resource, name, seconds)
        return None if found is None else found.values

    async def find(self, resource: Resource[Any], name: str, seconds: float) -> Any:
        """Return an object, None if there is none for us; an outage is waited for."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            try:
                return await self.link.client.get(resource, name, self.link.key.namespace)
            except (errors.NotFound, errors.Forbidden):
                return None
            except errors.KubeError as error:
                if isinstance(error, _WRONG) or loop.time() > until:
                    raise HostError(f"cannot read {resource.kind} {name}: {error}") from error
            await asyncio.sleep(PAUSE)


def _data_of(one: ConfigSet) -> ConfigSet:
    """Return the same set with its data and nothing else."""
    said = one.spec
    spec = ConfigSetSpec(
        node_selector=said.node_selector, priority=said.priority, data=said.data, data_from=said.data_from
    )
    return msgspec.structs.replace(one, spec=spec)
