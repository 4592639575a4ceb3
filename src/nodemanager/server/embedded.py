"""The embedded API as one part of a process: files, identity, store and HTTP, in the right order.

data folder -> CA, token key -> store -> default objects -> admin.kubeconfig -> listening
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from asyncio import sslproto
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web, web_response

from nodemanager.server.access import aggregation, core, token_keys
from nodemanager.server.access.admin_config import AdminConfig
from nodemanager.server.access.authn import Authenticator
from nodemanager.server.access.authz import Authorizer
from nodemanager.server.access.gate import AccessGate
from nodemanager.server.access.quotas import QuotaRule, Quotas
from nodemanager.server.access.store_listers import StoredObjects, StoredRoles
from nodemanager.server.access.tokens import Tokens
from nodemanager.server.admission.mutations import Mutations
from nodemanager.server.admission.policies import Policies
from nodemanager.server.admission.policy.writes import PolicyWrites
from nodemanager.server.audit.audit_log import AuditLog, AuditOptions
from nodemanager.server.audit.log_file import LogFile
from nodemanager.server.bootstrap import Preset, ensure_defaults
from nodemanager.server.collection.expiry import Expiry
from nodemanager.server.http import certs, http_log, private_files
from nodemanager.server.http.app import ApiSettings, HttpApi
from nodemanager.server.http.endpoint import Endpoint
from nodemanager.server.http.idle_connections import (
    SHARE,
    IdleConnections,
    hang_up,
    raise_file_limit,
    sockets_of,
)
from nodemanager.server.http.listening_socket import listen
from nodemanager.server.http.observation import Instrument, Instruments, RequestObserver
from nodemanager.server.http.serving import Serving
from nodemanager.server.hub import Hub, utc_now
from nodemanager.server.kinds import disruption
from nodemanager.server.kinds.builtin_kinds import BUILTIN
from nodemanager.server.kinds.disruption import DisruptionController
from nodemanager.server.kinds.eviction import Evictions
from nodemanager.server.kinds.resources import Catalogue
from nodemanager.server.openapi.feed import Feed
from nodemanager.store.base import Store
from nodemanager.store.sqlite import SqliteStore

log = logging.getLogger(__name__)
DATABASE = "state.db"
KUBECONFIG = "admin.kubeconfig"
TLS_BUFFER = 16 * 1024
"""Bytes of each connection; with asyncio's own 256 KiB, five hundred watches would take 128 MiB."""
STOP_SECONDS = 5.0
GOODBYE_SECONDS = 1.0
"""Once all is answered: how long clients may take to read the rest and to end TLS."""
HIDDEN = (
    "it listens on every address of this host, and the kubeconfig says %s, which is good on this host only;"
    " for others say how they reach it: --advertise-address HOST"
)
LINGER_SECONDS = 1.0
"""How long a refused body is read on: its sender would not see the refusal while it still sends."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Where the server keeps its data, where it listens, and what is there from the start."""

    data_dir: Path
    endpoint: Endpoint
    namespace: str = "default"
    """A namespace that is created if it is not one of Kubernetes' own."""
    presets: Sequence[Preset] = ()
    quota_rule: QuotaRule | None = None
    """How much single users may keep; None = as much as they like."""
    audit: AuditOptions | None = None


class EmbeddedServer:
    """Serves until cancelled. When it listens, `kubeconfig` and all presets are there."""

    name = "embedded API"

    def __init__(self, options: ServerOptions, instrument: Instrument = lambda _hub: Instruments()) -> None:
        """`instrument` returns observers of requests, and pages of their own."""
        self._options = options
        self._instrument = instrument
        self._listening = asyncio.Event()
        self.url = ""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self._options.data_dir / KUBECONFIG

    async def ready(self) -> None:
        """Wait until it serves."""
        await self._listening.wait()

    async def run(self) -> None:
        """Serve until cancelled, then end open requests and close the store."""
        private_files.prepare_folder(self._options.data_dir)
        store = await SqliteStore.open(self._options.data_dir / DATABASE)
        try:
            await self._serve(store)
        finally:
            await store.close()

    async def _serve(self, store: Store) -> None:
        authority = certs.load_or_create(self._options.data_dir / "ca.pem", utc_now())
        with self._audited() as audit:
            await self._listen(self._api(store, audit), authority)

    @contextlib.contextmanager
    def _audited(self) -> Iterator[tuple[RequestObserver, ...]]:
        """Keep the audit log open, if there is to be one."""
        options = self._options.audit
        if options is None:
            yield ()
            return
        file = LogFile(options.path, options.limits)
        try:
            yield (AuditLog(options.policy, file),)
        finally:
            file.close()

    async def _listen(self, api: HttpApi, authority: certs.Authority) -> None:
        folder, options = self._options.data_dir, self._options
        sslproto.SSLProtocol.max_size = TLS_BUFFER
        # aiohttp puts it into answers to what is no HTTP; `app` removes it from all others.
        web_response.SERVER_SOFTWARE = ""  # type: ignore[attr-defined]
        endpoint = options.endpoint
        with listen(endpoint.host, endpoint.port) as sock:
            address, port = sock.getsockname()[:2]
            self.url = endpoint.url(address, port)
            serving = Serving(authority, folder / "serving.pem", endpoint.certificate_names(address), utc_now)
            runner = web.AppRunner(
                api.application(), access_log=None, shutdown_timeout=STOP_SECONDS,
                lingering_time=LINGER_SECONDS, logger=http_log.LOG,
            )  # fmt: skip
            await runner.setup()
            http = runner.server
            idle = IdleConnections(int(raise_file_limit() * SHARE))
            background = [
                asyncio.create_task(serving.keep_fresh(), name="serving certificate"),
                asyncio.create_task(
                    idle.run(lambda: http.connections if http else []), name="idle connections"
                ),
            ]
            try:
                await ensure_defaults(api.hub, self._options.presets)
                await aggregation.refill(api.hub)
                admin = AdminConfig(self.kubeconfig, self.url, authority, utc_now)
                background += _controllers(api.hub)
                background.append(asyncio.create_task(admin.keep_fresh(), name="admin.kubeconfig"))
                site = web.SockSite(runner, sock, ssl_context=serving.context)
                await site.start()
                log.info("serving on %s, kubeconfig %s", self.url, self.kubeconfig)
                if endpoint.is_hidden(address):
                    log.warning(HIDDEN, self.url)
                self._listening.set()
                try:
                    await asyncio.get_running_loop().create_future()
                finally:
                    await site.stop()
                    await api.drain(STOP_SECONDS)
            finally:
                for task in background:
                    task.cancel()
                sockets = sockets_of(http.connections) if http else []
                await runner.cleanup()
                await hang_up(sockets, GOODBYE_SECONDS)
                await asyncio.gather(*background, return_exceptions=True)

    def _api(self, store: Store, audit: Sequence[RequestObserver]) -> HttpApi:
        catalogue = Catalogue((*core.with_tokens(BUILTIN), *core.REVIEWS))
        hub = Hub(store, catalogue)
        key = token_keys.load_or_create(self._options.data_dir / "service-account-key.pem")
        tokens = Tokens(key, StoredObjects(hub), utc_now)
        gate = AccessGate(Authenticator(tokens), Authorizer(StoredRoles(hub)))
        hub.admission = (
            core.CreationByPatch(gate), core.RbacAdmission(gate), PolicyWrites(hub, gate.authorizer),
        )  # fmt: skip
        hub.mutation = (Mutations(hub, gate.authorizer),)
        hub.validation = (Policies(hub, gate.authorizer),)
        if self._options.quota_rule is not None:
            hub.quota = Quotas(store, self._options.quota_rule)
        instruments = self._instrument(hub)
        settings = ApiSettings(
            namespaces=(self._options.namespace,),
            handlers={
                **core.handlers(gate, tokens),
                ("pods", "eviction"): Evictions(disruption.refresh),
            },
            pages=(Feed(hub).page, core.key_pages(tokens), *instruments.pages),
            observers=(*instruments.observers, *audit),
        )
        return HttpApi(hub, gate, settings)


def _controllers(hub: Hub) -> list[asyncio.Task[None]]:
    """Start what kube-controller-manager does elsewhere, as far as it is needed here."""
    return [
        asyncio.create_task(DisruptionController(hub).run(), name="disruption controller"),
        asyncio.create_task(aggregation.keep_roles(hub), name="aggregation of ClusterRoles"),
        asyncio.create_task(Expiry(hub).run(), name="expiry of Events"),
    ]
