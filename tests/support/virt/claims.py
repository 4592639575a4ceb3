"""PersistentVolumeClaims, and what binds them: in the API where it serves them, else here.

The embedded API has no volumes. What CDI does with claims is the same: only who keeps them differs.
"""

from __future__ import annotations

import contextlib

from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.objects import Untyped
from support.virt.kinds import CLAIMS, named


class Claims:
    """The claims of a namespace."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._served: bool | None = None
        self._kept: dict[str, Untyped] = {}

    async def all(self) -> dict[str, Untyped]:
        """Return all of them by name."""
        if self._served is None or self._served:
            try:
                found = await self._client.list(CLAIMS, Selection(self._namespace))
            except errors.NotFound:
                self._served = False
            else:
                self._served = True
                return {named(one): one for one in found.items}
        return dict(self._kept)

    async def create(self, obj: Untyped) -> None:
        """Create one, which nobody has bound yet."""
        await self.all()
        if not self._served:
            self._kept.setdefault(named(obj), {**obj, "status": {"phase": "Pending"}})
            return
        with contextlib.suppress(errors.AlreadyExists):
            await self._client.create(CLAIMS, obj, self._namespace)

    async def bind(self, name: str) -> None:
        """Have a volume for one, as a provisioner does."""
        spec, status = {"volumeName": f"pv-{self._namespace}-{name}"}, {"phase": "Bound"}
        if not self._served:
            one = self._kept[name]
            self._kept[name] = {**one, "spec": {**one["spec"], **spec}, "status": status}
            return
        await self._client.patch(CLAIMS, name, self._namespace, MergePatch({"spec": spec}))
        await self._client.patch(
            CLAIMS, name, self._namespace, MergePatch({"status": status}), subresource="status"
        )
