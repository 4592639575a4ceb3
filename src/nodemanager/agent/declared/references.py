"""Secrets and ConfigMaps that files refer to: each is watched by its name, and no others are."""

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
"""Seconds that the first read of new references may take before a pass goes on without them."""


class ReferenceWatch:
    """Keeps one small watch for each referenced object."""

    name = "referenced Secrets and ConfigMaps"

    def __init__(self, client: Client, namespace: str, changed: Callable[[], None]) -> None:
        self._client = client
        self._namespace = namespace
        self._changed = changed
        self._watched: dict[tuple[str, str], tuple[Cache[Any], asyncio.Task[None]]] = {}

    async def run(self) -> None:
        """Run until cancelled, then end all watches."""
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
        """Let failed reads be tried again now."""
        for cache, _ in self._watched.values():
            cache.hurry()

    def _start(self, key: tuple[str, str], resource: Resource[Any]) -> Cache[Any]:
        selection = Selection(self._namespace, fields=f"metadata.name={key[1]}")
        # The operator grants the right within seconds; until then the file that needs the object reports the
        # wait.
        options = CacheOptions(may_be_refused=True)
        cache: Cache[Any] = Cache(self._client, resource, selection, options=options)
        cache.subscribe(lambda _change: self._changed())
        self._watched[key] = (cache, asyncio.create_task(cache.run(), name=f"watch {key[0]} {key[1]}"))
        return cache

    def secrets(self, known: Mapping[str, Mapping[str, bytes]]) -> Mapping[str, Mapping[str, bytes]]:
        """Return the existing Secrets; until the API has answered, those that are `known`."""
        return self._found("Secret", known)

    def config_maps(
        self, known: Mapping[str, Mapping[str, str | bytes]]
    ) -> Mapping[str, Mapping[str, str | bytes]]:
        """Return the existing ConfigMaps; until the API has answered, those that are `known`."""
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
