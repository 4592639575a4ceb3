"""Tells other objects that a ConfigSet has been applied: an annotation with its generation.

It fires once per generation of the set, whichever host is first; the others find it said already.
Errors are worth a warning, not a failed pass: the host itself is as it shall be.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.declarations import Notify
from nodemanager.client.calls import Call, Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import errors, hints
from nodemanager.kube.objects import ObjectMeta, Resource, Struct

log = logging.getLogger(__name__)
PREFIX: Final = "nodemanager.io/notify-"


class _Target(Struct):
    """As much of any object as matters here."""

    metadata: ObjectMeta = ObjectMeta()


class _Served(Struct):
    """One entry of what a group version serves."""

    name: str = ""
    kind: str = ""
    namespaced: bool = True


class _ServedList(Struct):
    resources: list[_Served] = []


class NotifiesAnnotator:
    """Annotates what ConfigSets name in `spec.notifies`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._told: dict[tuple[str, str], tuple[int, list[Notify]]] = {}
        self._warned: dict[tuple[str, str], str] = {}
        self._resources: dict[tuple[str, str], Resource[_Target]] = {}

    async def applied(self, config_sets: Iterable[ConfigSet]) -> None:
        """Tell about sets that hold on this host; what was told before is not told again."""
        present = set()
        for one in config_sets:
            key = (one.metadata.name, one.metadata.uid)
            present.add(key)
            said = (one.metadata.generation, one.spec.notifies)
            if not one.spec.notifies or self._told.get(key) == said:
                continue
            if await self._tell_all(key, one):
                self._told[key] = said
        for known in (self._told, self._warned):
            for gone in [key for key in known if key not in present]:
                del known[gone]

    async def _tell_all(self, key: tuple[str, str], config_set: ConfigSet) -> bool:
        failed = []
        for target in config_set.spec.notifies:
            try:
                await self._tell(config_set, target)
            except errors.KubeError as error:
                failed.append(f"cannot notify {target.kind} {target.name or '(all)'}: {error}")
        text = "; ".join(failed)
        if text and self._warned.get(key) != text:
            log.warning("ConfigSet %s: %s; the host itself is as declared", config_set.metadata.name, text)
        self._warned[key] = text
        return not failed

    async def _tell(self, config_set: ConfigSet, target: Notify) -> None:
        meta = config_set.metadata
        resource = await self._resource(target.api_version, target.kind)
        namespace = (target.namespace or meta.namespace) if resource.namespaced else ""
        annotation, value = f"{PREFIX}{meta.name}", str(meta.generation)
        names = [target.name]
        if not target.name:
            found = (await self._client.list(resource, Selection(namespace))).items
            names = [one.metadata.name for one in found if one.metadata.annotations.get(annotation) != value]
        body = MergePatch({"metadata": {"annotations": {annotation: value}}})
        for name in names:  # a patch that says nothing new is no write
            await self._client.patch(resource, name, namespace, body)

    async def _resource(self, api_version: str, kind: str) -> Resource[_Target]:
        """Return how objects of a kind are addressed, which the API tells."""
        known = self._resources.get((api_version, kind))
        if known is not None:
            return known
        if not re.fullmatch(hints.API_VERSION, api_version):
            raise errors.NotFound(f"there is no API version {api_version[:64]!r}: write GROUP/VERSION, or v1")
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{api_version}" if group else f"/api/{api_version}"
        body = await self._client.send(Call("GET", path, f"find out what {api_version} serves", {}))
        try:
            served: Any = msgspec.json.decode(body, type=_ServedList).resources
        except errors.UNREADABLE as error:
            raise errors.ProtocolError(f"cannot find out what {api_version} serves: {error}") from None
        for one in served:
            if one.kind == kind and "/" not in one.name:
                found = Resource(group, version, kind, one.name, _Target, namespaced=one.namespaced)
                self._resources[api_version, kind] = found
                return found
        raise errors.NotFound(f"there is no kind {kind} in {api_version}")
