"""Install our CRDs and wait until they are served; uninstall them and wait until they are gone.

With them come and go the admission policies: every host is kept to its own objects, tasks are the operator's,
and what people ask for says who asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, NamedTuple

import msgspec

from nodemanager.api import crds, kinds
from nodemanager.api.rights import policies
from nodemanager.cli.installing import binding_names, stamping_start
from nodemanager.client.calls import Call, DeleteOptions, WriteOptions
from nodemanager.client.patches import ApplyPatch
from nodemanager.client.verbs import Client
from nodemanager.kube import core, errors
from nodemanager.kube.objects import ListMeta, Resource, Struct, Untyped
from nodemanager.runtime.backoff import Backoff

FIELD_MANAGER: Final = "nodemanager"
_OURS: Final = (core.POLICIES, core.MUTATING_POLICIES)
_POLL: Final = Backoff(base=0.05, maximum=1.0, jitter=0.0)

Progress = Callable[[str], None]
"""Called with a text about what is being waited for."""


class CrdOutcome(NamedTuple):
    """What became of one object."""

    name: str
    result: str


class _Counted(Struct):
    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


class Changes:
    """Changes of all our CRDs, and of the policies, in one cluster."""

    def __init__(
        self, client: Client, *, dry_run: bool, timeout: float, rename: bool, progress: Progress
    ) -> None:
        """Rename bindings of hosts that older versions named, with `rename`; otherwise only report them."""
        self._client = client
        self._rename = rename
        self._dry_run = dry_run
        self._timeout = timeout
        self._progress = progress

    async def install(self) -> AsyncIterator[CrdOutcome]:
        """Apply every CRD, and yield each once the server serves it; then what keeps hosts in their place."""
        for crd in crds.all_crds():
            name: str = crd["metadata"]["name"]
            before = await self._read(core.CRDS, name)
            if before is not None and "deletionTimestamp" in before["metadata"]:
                before = None
                if not self._dry_run:
                    await self._wait(name, "the old one is being deleted", lambda found: found is None)
            after = await self._apply(core.CRDS, crd)
            if not self._dry_run:
                await self._wait(name, "it is not served yet", _is_established)
            yield CrdOutcome(name, _difference(before, after))
        without = "(Kubernetes 1.30 has): a host's credential can write what belongs to other hosts"
        async for outcome in self._bring(policies.objects(), without):
            yield outcome
        without = "(Kubernetes 1.36 has): nobody writes down who asks for something, but for field managers"
        stamped = False
        async for outcome in self._bring(policies.mutating_objects(), without):
            stamped = True
            yield outcome
        if stamped and not self._dry_run:
            await stamping_start.wait(self._client, self._timeout, self._progress)
        async for outcome in self._renamed():
            yield outcome

    async def _bring(self, objects: list[Untyped], without: str) -> AsyncIterator[CrdOutcome]:
        """Apply policies with their bindings; a server that has no such kind is told of, and that is all."""
        for resource, wanted in _with_kinds(objects):
            before = await self._read(resource, wanted["metadata"]["name"])
            try:
                # The binding is for people to change: say, to have refusals only counted for a while.
                after = await self._apply(resource, wanted, force=resource in _OURS)
            except errors.Conflict as error:
                name = _policy_name(resource, wanted)
                self._progress(
                    f"warning: {name} is not as we have it, and stays so: {error}; to get ours, delete it and"
                    " run this again"
                )
                yield CrdOutcome(name, "kept")
                continue
            except errors.NotFound:
                self._progress(f"warning: this cluster has no {resource.plural} {without}")
                return
            yield CrdOutcome(_policy_name(resource, wanted), _difference(before, after))

    async def _renamed(self) -> AsyncIterator[CrdOutcome]:
        """Tell hosts of one name in two namespaces apart, which older versions did not; but only if asked."""
        bindings = core.CLUSTER_ROLE_BINDINGS
        renaming = binding_names.Renaming(self._client, dry_run=self._dry_run)
        try:
            if not self._rename:
                if names := [found.name for found in await renaming.find()]:
                    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
                    self._progress(
                        f"warning: {len(names)} ClusterRoleBindings have names of an older version, which"
                        f" hosts of two namespaces share ({shown});"
                        " nothing was done to them: to rename them, add --rename-bindings"
                    )
                return
            async for name, result in renaming.run():
                yield CrdOutcome(f"{name}.{bindings.plural}.{bindings.group}", result)
        except errors.Forbidden as error:
            self._progress(
                f"warning: cannot rename ClusterRoleBindings of hosts that older versions named: {error}; use"
                " the credential of an administrator"
            )
        except errors.Conflict as error:
            self._progress(
                f"warning: ClusterRoleBindings of hosts are not all renamed yet: {error}; somebody else wrote"
                " one meanwhile: run it again"
            )

    async def uninstall(self) -> AsyncIterator[CrdOutcome]:
        """Delete every CRD that is there, and yield each once it is gone with all its objects."""
        for crd in reversed(crds.all_crds()):
            name: str = crd["metadata"]["name"]
            try:
                await self._client.delete(core.CRDS, name, options=DeleteOptions(dry_run=self._dry_run))
            except errors.NotFound:
                yield CrdOutcome(name, "not found")
                continue
            if not self._dry_run:
                await self._wait(name, "its objects are being deleted", lambda found: found is None)
            yield CrdOutcome(name, "deleted")
        everything = [*policies.objects(), *policies.mutating_objects()]
        for resource, policy in reversed(
            _with_kinds(everything)
        ):  # last: no host may use the time in between
            result = "deleted"
            try:
                await self._client.delete(
                    resource, policy["metadata"]["name"], options=DeleteOptions(dry_run=self._dry_run)
                )
            except errors.NotFound:
                result = "not found"
            yield CrdOutcome(_policy_name(resource, policy), result)

    async def _apply(self, resource: Resource[Untyped], obj: Untyped, *, force: bool = True) -> Untyped:
        options = WriteOptions(dry_run=self._dry_run, field_manager=FIELD_MANAGER)
        name: str = obj["metadata"]["name"]
        return await self._client.patch(resource, name, "", ApplyPatch(obj, force=force), options=options)

    async def _read(self, resource: Resource[Untyped], name: str) -> Untyped | None:
        try:
            return await self._client.get(resource, name)
        except errors.NotFound:
            return None

    async def _wait(self, name: str, why: str, done: Callable[[Untyped | None], bool]) -> None:
        """Look again and again, at most once a second, until a CRD is as it should be."""
        attempts = 0
        try:
            async with asyncio.timeout(self._timeout):
                while not done(await self._read(core.CRDS, name)):
                    attempts += 1
                    if attempts == 5:  # most are done by now; a user begins to wonder
                        self._progress(f"waiting for {name}: {why}")
                    await asyncio.sleep(_POLL.delay(attempts))
        except TimeoutError:
            raise errors.TimedOut(
                f"cannot go on with {name}: {why} after {self._timeout:g} s; ask why with: "
                f"kubectl describe crd {name}, or allow more with --timeout"
            ) from None


def _with_kinds(objects: list[Untyped]) -> list[tuple[Resource[Untyped], Untyped]]:
    by_kind = {resource.kind: resource for resource in (*_OURS, core.POLICY_BINDINGS, core.MUTATING_BINDINGS)}
    return [(by_kind[one["kind"]], one) for one in objects]


def _policy_name(resource: Resource[Untyped], obj: Untyped) -> str:
    return f"{obj['metadata']['name']}.{resource.plural}.{resource.group}"


async def count_objects(client: Client) -> dict[str, int]:
    """Return how many objects of each of our kinds there are, by name; kinds not installed have none."""
    counts = {}
    for kind in kinds.KINDS:
        resource = kind.resource
        call = Call("GET", resource.path(), f"list {resource.qualified_name}", {"limit": "1"})
        try:
            found = msgspec.json.decode(await client.send(call), type=_Counted)
        except errors.NotFound:
            continue
        except errors.UNREADABLE as error:
            raise errors.ProtocolError(f"cannot {call.doing}: the answer does not decode: {error}") from error
        counts[resource.kind] = len(found.items or []) + (found.metadata.remaining_item_count or 0)
    return counts


def _is_established(crd: Untyped | None) -> bool:
    """Tell whether the server serves a CRD; raise if it never will."""
    if crd is None:
        return False
    status = crd.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or []}  # null when it is new
    refused = conditions.get("NamesAccepted", {})
    if refused.get("status") == "False":
        raise errors.ConfigError(
            f"cannot install {crd['metadata']['name']}: the cluster refuses its names:"
            f" {refused.get('message', '')}; another CRD has them: remove that one first"
        )
    return bool(conditions.get("Established", {}).get("status") == "True")


def _difference(before: Untyped | None, after: Untyped) -> str:
    """Compare what users see; field managers and their times do not matter to them."""
    if before is None:
        return "created"
    return "unchanged" if _essence(before) == _essence(after) else "configured"


def _essence(crd: Untyped) -> tuple[Any, ...]:
    meta = crd["metadata"]
    return crd["spec"], meta.get("labels"), meta.get("annotations")
