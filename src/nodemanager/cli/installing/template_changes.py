"""Install the NodeOperationTemplates that we ship, into one namespace; what people changed stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from nodemanager.api.maintenance import shipped_templates
from nodemanager.api.maintenance.nodeoperationtemplate import NODE_OPERATION_TEMPLATES
from nodemanager.api.maintenance.shipped_templates import DIGEST, TemplateFate
from nodemanager.client.calls import WriteOptions
from nodemanager.client.patches import JsonPatch
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.objects import Resource, Untyped
from nodemanager.runtime.backoff import Backoff

_KIND: Final = NODE_OPERATION_TEMPLATES
_TEMPLATES: Final[Resource[Untyped]] = Resource(_KIND.group, _KIND.version, _KIND.kind, _KIND.plural, dict)
_POLL: Final = Backoff(base=0.05, maximum=1.0, jitter=0.0)
_NAMESPACES: Final[Resource[Untyped]] = Resource("", "v1", "Namespace", "namespaces", dict, namespaced=False)
_SERVED_SECONDS: Final = 30.0
"""How long a server that has just accepted a kind may take until it knows it everywhere."""


class TemplateChanges:
    """Changes of all templates that we ship, in one namespace."""

    def __init__(
        self, client: Client, namespace: str, *, dry_run: bool, progress: Callable[[str], None]
    ) -> None:
        """Report on `progress`, as text, what is not done, and why."""
        self._client = client
        self._namespace = namespace
        self._options = WriteOptions(dry_run=dry_run, field_manager=shipped_templates.US)
        self._dry_run = dry_run
        self._progress = progress

    async def install(self) -> AsyncIterator[tuple[str, str]]:
        """Create what is missing, and bring up to date what is ours; yield names and what became of them."""
        if await self._lacks_namespace():
            self._progress(
                f"note: our NodeOperationTemplates are not installed: there is no namespace"
                f" {self._namespace}; create it and run this again, or name another one with --namespace"
            )
            return
        for ours in shipped_templates.templates(self._namespace):
            name = ours["metadata"]["name"]
            try:
                result = await self._bring(ours, name)
            except errors.NotFound:
                if not self._dry_run:
                    raise
                self._progress("note: our NodeOperationTemplates come after the kinds, which are not there")
                return
            yield f"{name}.{_KIND.qualified_name}", result

    async def _lacks_namespace(self) -> bool:
        try:
            await self._client.get(_NAMESPACES, self._namespace)
        except errors.NotFound:
            return True
        except errors.Forbidden:
            return False  # a user who may not read may still be allowed to write there
        return False

    async def _bring(self, ours: Untyped, name: str) -> str:
        present = await self._read(name)
        fate, why = shipped_templates.decide(ours, present)
        if fate is TemplateFate.KEEP:
            self._progress(
                f"note: template {name} stays as it is: {why}; to get ours, delete it and run this again"
            )
        elif present is None:
            await self._create(ours)
        elif fate is TemplateFate.UPDATE:
            await self._update(ours, present)
        return fate.value

    async def _read(self, name: str) -> Untyped | None:
        try:
            return await self._client.get(_TEMPLATES, name, self._namespace)
        except errors.NotFound:
            return None

    async def _create(self, ours: Untyped) -> None:
        """Create it, also where the server has yet to hear of the kind."""
        attempts, loop = 0, asyncio.get_running_loop()
        until = loop.time() + (0 if self._dry_run else _SERVED_SECONDS)
        while True:
            try:
                await self._client.create(_TEMPLATES, ours, self._namespace, options=self._options)
            except (errors.NotFound, errors.ServiceUnavailable):
                if loop.time() >= until:
                    raise
            else:
                return
            attempts += 1
            await asyncio.sleep(_POLL.delay(attempts))

    async def _update(self, ours: Untyped, present: Untyped) -> None:
        """Replace the spec, all of it, of the very object that was looked at."""
        meta = present["metadata"]
        note = f"/metadata/annotations/{DIGEST.replace('/', '~1')}"
        patch = JsonPatch(
            [
                {"op": "test", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]},
                {"op": "replace", "path": "/spec", "value": ours["spec"]},
                {"op": "replace", "path": note, "value": ours["metadata"]["annotations"][DIGEST]},
            ]
        )
        await self._client.patch(_TEMPLATES, meta["name"], self._namespace, patch, options=self._options)
