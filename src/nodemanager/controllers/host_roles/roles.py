"""Keeps one Role per host with exactly the Secrets, ConfigMaps and Leases that are named for it.

ConfigSets that match a host, tasks of it that have not ended  ->  names  ->  Role nodemanager-HOST-references
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nodemanager.api.common import choosing, configsetrevision, matching
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet, ConfigSetSpec
from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS, BadRevision, ConfigSetRevision
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.common.rollout import RevisionRef, RolloutStatus
from nodemanager.api.maintenance.nodetask import NODE_TASKS, NodeTask, is_ended
from nodemanager.api.rights import host_references
from nodemanager.client.calls import WriteOptions
from nodemanager.client.patches import ApplyPatch
from nodemanager.client.verbs import Client
from nodemanager.controllers.registration import Caches, ControllerContext, Wake
from nodemanager.fleet.tasks import lookup
from nodemanager.fleet.tasks import references as task_references
from nodemanager.kube import errors
from nodemanager.kube.core import ROLE_BINDINGS, ROLES, Role, RoleBinding
from nodemanager.kube.objects import ObjectKey, Resource, key_of
from nodemanager.kube.wording import plural
from nodemanager.rendering import referring
from nodemanager.rendering.renderer import Rendering
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.controller import Reconcile

log = logging.getLogger(__name__)
SETTLE_SECONDS = 0.1
MANAGER = "nodemanager-operator"
MAX_SPECS = 256
"""How many contents of revisions are kept in memory: reading some again is better than keeping all for ever.
"""


@dataclass(frozen=True, slots=True)
class RoleSources:
    """The caches that the operator has of the cluster."""

    config_sets: Cache[ConfigSet]
    revisions: Cache[ConfigSetRevision]
    nodes: Cache[ManagedNode]
    tasks: Cache[NodeTask]
    """With the index `lookup.BY_NODE`."""
    roles: Cache[Role]
    bindings: Cache[RoleBinding]


class HostRoles:
    """Keeps the rights of each host to read equal to what is declared for it."""

    def __init__(self, client: Client, seen: RoleSources, renderer: Rendering) -> None:
        self._client = client
        self._renderer = renderer
        self._seen = seen
        self._complaints: dict[ObjectKey, str] = {}
        self._specs: dict[str, ConfigSetSpec] = {}
        """Contents of revisions by digest: they are the same for all hosts."""
        self._bad = ""
        """The last complaint about a revision that cannot be used."""

    async def reconcile(self, key: ObjectKey) -> None:
        """Write the Role of a host and its binding, if they are not right."""
        node = self._seen.nodes.get(key)
        if node is None:
            self._complaints.pop(key, None)
            return  # its Role is removed with it
        declared = (one for one in self._seen.config_sets.values() if one.metadata.namespace == key.namespace)
        found_sets = [each for one in declared for each in self._contents(one, node.metadata.labels)]
        sets = [one for one in found_sets if one is not None]
        tasks = [
            one
            for one in self._seen.tasks.find(lookup.BY_NODE, key.name)
            if one.metadata.namespace == key.namespace
        ]
        found = await referring.referenced(self._renderer, sets, node, task_references.files(tasks))
        self._complain(key, "; ".join(map(str, found.errors)))
        secrets = {*found.secrets, *task_references.secrets(tasks)}
        needed = host_references.needs(node, sets, secrets, found.config_maps)
        its = ObjectKey(key.namespace, host_references.role_name(key.name))
        current, bound = self._seen.roles.get(its), self._seen.bindings.get(its)
        if current is not None and len(sets) < len(found_sets):
            # The watch may show a revision later than the set that names it. Hosts that have it need its
            # Secrets.
            needed = host_references.with_granted(needed, current.rules or [])
        role, binding = host_references.objects(node, needed)
        if current is None and not role["rules"]:
            return  # no right is needed, and there is no Role
        if current is None or (current.rules or []) != role["rules"]:
            await self._apply(ROLES, role)
            read = plural(len(needed.secrets), "Secret")
            log.info("%s may now read %s and %s", key, read, plural(len(needed.config_maps), "ConfigMap"))
        if bound is None or bound.subjects != binding["subjects"]:
            await self._apply(ROLE_BINDINGS, binding)

    def _contents(self, config_set: ConfigSet, labels: Mapping[str, str]) -> Iterator[ConfigSet | None]:
        """Yield the contents of a set that a host may have, several during stages; None = a missing revision.

        The undone revision is one of them: hosts have it until they have returned.
        """
        status = config_set.status.rollout
        if not choosing.in_stages(config_set) or status is None:
            if matching.matches(config_set, labels):
                yield config_set
            return
        for ref in _refs(status):
            if ref is not None and choosing.is_meant(ref, labels):
                yield self._revision(config_set, ref)

    def _revision(self, config_set: ConfigSet, ref: RevisionRef) -> ConfigSet | None:
        revision = self._seen.revisions.get(ObjectKey(config_set.metadata.namespace, ref.name))
        if revision is None:
            return None
        if (spec := self._specs.get(ref.digest)) is None:
            try:
                spec = configsetrevision.spec_of(revision, ref.digest)
            except BadRevision as error:
                if str(error) != self._bad:
                    log.warning("hosts keep the rights that they have: %s", error)
                self._bad = str(error)
                return None
            if len(self._specs) >= MAX_SPECS:
                self._specs.clear()
            self._specs[ref.digest] = spec
        return choosing.in_force(config_set, ref, spec, revision.metadata)

    def _complain(self, key: ObjectKey, text: str) -> None:
        """Report once which references are ignored; the agent of the host reports them in its status."""
        if not text:
            self._complaints.pop(key, None)
        elif self._complaints.get(key) != text:
            log.warning("%s gets no right by references that cannot be followed: %s", key, text)
            self._complaints[key] = text

    async def _apply(self, resource: Resource[Any], obj: dict[str, Any]) -> None:
        meta = obj["metadata"]
        patch = ApplyPatch(obj, force=True)
        options = WriteOptions(field_manager=MANAGER)
        with contextlib.suppress(errors.NotFound):  # the namespace is being deleted, and everything with it
            await self._client.patch(resource, meta["name"], meta["namespace"], patch, options=options)


def build(context: ControllerContext) -> Reconcile:
    """Return the reconcile of the Roles."""
    of = context.caches.of
    tasks = of(NODE_TASKS)
    tasks.add_index(lookup.BY_NODE, lookup.by_node)
    sets, revisions = of(CONFIG_SETS), of(CONFIG_SET_REVISIONS)
    seen = RoleSources(sets, revisions, of(MANAGED_NODES), tasks, of(ROLES), of(ROLE_BINDINGS))
    return HostRoles(context.client, seen, context.renderer).reconcile


def on_config_set(change: Change[ConfigSet], caches: Caches) -> Iterator[Wake]:
    """Wake the hosts that a set selects, or selected before, when its spec changes."""
    old, new = change.old, change.new
    if old and new and _grants_the_same(old, new):
        return
    refs = [ref for one in (old, new) if one and one.status.rollout for ref in _refs(one.status.rollout)]
    for node in caches.of(MANAGED_NODES).values():
        labels = node.metadata.labels
        meant = any(one is not None and matching.matches(one, labels) for one in (old, new))
        if meant or any(choosing.is_meant(ref, labels) for ref in refs):
            yield Wake(key_of(node), SETTLE_SECONDS)


def _grants_the_same(one: ConfigSet, other: ConfigSet) -> bool:
    if one.spec != other.spec or one.metadata.labels != other.metadata.labels:
        return False
    if choosing.in_stages(one) != choosing.in_stages(other):
        return False
    if not choosing.in_stages(one):
        return True
    old, new = one.status.rollout, other.status.rollout
    return (_refs(old) if old else None) == (_refs(new) if new else None)


def _refs(status: RolloutStatus) -> tuple[RevisionRef | None, ...]:
    return status.stable, status.next, status.refused


def on_revision(change: Change[ConfigSetRevision], caches: Caches) -> Iterator[Wake]:
    """Wake the hosts that may need a new revision: they may have seen the set before the revision."""
    if change.old is not None or change.new is None:
        return
    try:
        ref = configsetrevision.reference(change.new)
    except BadRevision:
        return  # hosts that need it report that
    for node in caches.of(MANAGED_NODES).values():
        if choosing.is_meant(ref, node.metadata.labels):
            yield Wake(key_of(node), SETTLE_SECONDS)


def on_node(change: Change[ManagedNode], _caches: Caches) -> Iterator[Wake]:
    """Wake a host that exists."""
    if change.new is not None:
        yield Wake(change.key, SETTLE_SECONDS)


def on_task(change: Change[NodeTask], _caches: Caches) -> Iterator[Wake]:
    """Wake the host of a task that names objects, when the task comes, ends or goes."""
    old, new = (one if one is None or not is_ended(one.status) else None for one in (change.old, change.new))
    task = new or old
    if task is None or (old is not None and new is not None):
        return
    if task_references.secrets([task]) or task_references.files([task]):
        yield Wake(ObjectKey(change.key.namespace, task.spec.node_name), SETTLE_SECONDS)


def on_role(change: Change[Role] | Change[RoleBinding], _caches: Caches) -> Iterator[Wake]:
    """Wake the host of a Role of ours that was changed or removed, so that it is restored."""
    prefix, suffix = host_references.role_name("/").split("/")
    if change.old is not None and change.key.name.endswith(suffix):
        host = change.key.name.removeprefix(prefix).removesuffix(suffix)
        yield Wake(ObjectKey(change.key.namespace, host), SETTLE_SECONDS)
