"""Secrets and ConfigMaps that files refer to: each watched by name, and no other one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.kube.core import CONFIG_MAPS, SECRETS
from nodemanager.kube.objects import ObjectKey, Resource
from nodemanager.plan.templates import References
from nodemanager.runtime.cache import Cache, CacheOptions

FIRST_READ = 10.0
"""Seconds that the first reading of what is newly referred to may take before a pass goes on without it."""


class ReferenceWatch:
    """Keeps one small watch per object that is referred to."""

    name = "referenced Secrets and ConfigMaps"

    def __init__(self, client: Client, namespace: str, changed: Callable[[], None]) -> None:
        self._client = client
        self._namespace = namespace
        self._changed = changed
        self._watched: dict[tuple[str, str], tuple[Cache[Any], asyncio.Task[None]]] = {}

    async def run(self) -> None:
        """Stay until cancelled, then end all watches."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for _, task in self._watched.values():
                task.cancel()
            await asyncio.gather(*(task for _, task in self._watched.values()), return_exceptions=True)
            self._watched.clear()

    async def follow(self, needed: References, patience: float = FIRST_READ) -> None:
        """Watch exactly these; returns when new ones were read or refused, or after a while."""
        wanted = {("Secret", name): SECRETS for name in needed.secrets} | {
            ("ConfigMap", name): CONFIG_MAPS for name in needed.config_maps
        }
        for key in [key for key in self._watched if key not in wanted]:
            _, task = self._watched.pop(key)
            task.cancel()
        new = [self._start(key, resource) for key, resource in wanted.items() if key not in self._watched]
        if new and patience > 0:
            waits = [asyncio.create_task(cache.answered()) for cache in new]
            _, late = await asyncio.wait(waits, timeout=patience)
            for wait in late:
                wait.cancel()

    def hurry(self) -> None:
        """Have what waits after a failure tried again now."""
        for cache, _ in self._watched.values():
            cache.hurry()

    def _start(self, key: tuple[str, str], resource: Resource[Any]) -> Cache[Any]:
        selection = Selection(self._namespace, fields=f"metadata.name={key[1]}")
        # The operator gives the right within seconds; until then who needs the object says that it waits.
        options = CacheOptions(may_be_refused=True)
        cache: Cache[Any] = Cache(self._client, resource, selection, options=options)
        cache.subscribe(lambda _change: self._changed())
        self._watched[key] = (cache, asyncio.create_task(cache.run(), name=f"watch {key[0]} {key[1]}"))
        return cache

    def secrets(self, known: Mapping[str, Mapping[str, bytes]]) -> Mapping[str, Mapping[str, bytes]]:
        """Return the Secrets that are there; as long as the API has not said, those that are `known`."""
        return self._found("Secret", known)

    def config_maps(
        self, known: Mapping[str, Mapping[str, str | bytes]]
    ) -> Mapping[str, Mapping[str, str | bytes]]:
        """Return the ConfigMaps that are there; as long as the API has not said, those that are `known`."""
        return self._found("ConfigMap", known)

    def _found(self, kind: str, known: Mapping[str, Any]) -> dict[str, Any]:
        found = {}
        for (which, name), (cache, _) in self._watched.items():
            if which != kind:
                continue
            obj = cache.get(ObjectKey(self._namespace, name))
            if obj is not None:
                found[name] = obj.values
            elif not cache.has_answered and name in known:
                found[name] = known[name]
        return found
