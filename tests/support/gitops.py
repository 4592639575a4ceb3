"""Argo CD and Flux as far as they apply a manifest, and tell whether an object is as it says.

Argo CD applies as kubectl does, and compares three ways: the manifest, what was applied last, and the object.
Or it applies server-side, and compares the object with what a dry run of the same would make of it. So does
Flux, with labels of its own; of metadata, it compares labels and annotations only.
"""

from __future__ import annotations

import abc
from typing import Any

from nodemanager.client.calls import WriteOptions
from nodemanager.client.patches import ApplyPatch, MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.objects import Resource, Untyped
from support import three_way


class GitOpsTool(abc.ABC):
    """Keeps objects as manifests say."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client, self.namespace = client, namespace

    async def live(self, kind: Resource[Any], manifest: Untyped) -> Untyped:
        return await self.client.get(kind.untyped(), manifest["metadata"]["name"], self.namespace)

    @abc.abstractmethod
    async def sync(self, kind: Resource[Any], manifest: Untyped) -> None:
        """Make an object as a manifest says."""

    @abc.abstractmethod
    async def drift(self, kind: Resource[Any], manifest: Untyped) -> Untyped:
        """Return what it would change; empty = in sync."""


class Argo(GitOpsTool):
    """Argo CD as it is set up by default."""

    async def sync(self, kind: Resource[Any], manifest: Untyped) -> None:
        sent = three_way.declared(manifest, self.namespace)
        try:
            await self.client.create(kind.untyped(), sent, self.namespace)
        except errors.AlreadyExists:
            patch = MergePatch(three_way.patch(sent, await self.live(kind, manifest)))
            await self.client.patch(kind.untyped(), manifest["metadata"]["name"], self.namespace, patch)

    async def drift(self, kind: Resource[Any], manifest: Untyped) -> Untyped:
        sent = three_way.declared(manifest, self.namespace)
        return three_way.patch(sent, await self.live(kind, manifest))


class ServerSide(GitOpsTool):
    """A tool that applies server-side."""

    manager = "argocd-controller"

    def sent(self, manifest: Untyped) -> Untyped:
        return manifest

    def seen(self, obj: Untyped) -> Untyped:
        """Return what is compared of an object."""
        noise = ("managedFields", "resourceVersion", "generation")
        metadata = {key: value for key, value in obj["metadata"].items() if key not in noise}
        return {**obj, "metadata": metadata, "status": {}}

    async def sync(self, kind: Resource[Any], manifest: Untyped) -> None:
        await self._apply(kind, manifest)

    async def _apply(self, kind: Resource[Any], manifest: Untyped, *, dry_run: bool = False) -> Untyped:
        patch = ApplyPatch(self.sent(manifest), force=True)
        options = WriteOptions(field_manager=self.manager, dry_run=dry_run)
        name = manifest["metadata"]["name"]
        return await self.client.patch(kind.untyped(), name, self.namespace, patch, options=options)

    async def drift(self, kind: Resource[Any], manifest: Untyped) -> Untyped:
        live = self.seen(await self.live(kind, manifest))
        wanted = self.seen(await self._apply(kind, manifest, dry_run=True))
        return {key: value for key, value in wanted.items() if live.get(key) != value}


class Flux(ServerSide):
    """Flux' kustomize-controller."""

    manager = "kustomize-controller"

    def sent(self, manifest: Untyped) -> Untyped:
        group = "kustomize.toolkit.fluxcd.io"
        labels = {f"{group}/name": "site", f"{group}/namespace": "flux-system"}
        metadata = manifest["metadata"]
        return {**manifest, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **labels}}}

    def seen(self, obj: Untyped) -> Untyped:
        found = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
        return found | {key: obj["metadata"].get(key, {}) for key in ("labels", "annotations")}
