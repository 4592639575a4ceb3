"""The embedded API in numbers, under kube-apiserver's names, and other observers of its requests.

Here and not in the server, because that layer does not know the runtime whose registry this is.
"""

from __future__ import annotations

import functools
import logging
from typing import Final

from aiohttp import web

from nodemanager.cli.embedded import host_quotas
from nodemanager.runtime import metrics, process_metrics
from nodemanager.server.access.quotas import Quotas
from nodemanager.server.http.observation import Instrument, Instruments, Observation
from nodemanager.server.http.request_log import RequestLog
from nodemanager.server.hub import Hub

PATH: Final = "/metrics"
BUCKETS: Final = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
)  # fmt: skip
LABELS: Final = ("verb", "group", "version", "resource", "subresource", "scope")
OTHER: Final = "other"
"""What everything that we do not serve is counted under: a client must not choose our labels."""
MAX_SERIES: Final = 1000
"""Definitions come and go, and their series stay; beyond this many, new ones count as `other`."""
_VERBS: Final = {
    "get": "GET", "list": "LIST", "watch": "WATCH", "create": "POST", "update": "PUT", "patch": "PATCH",
    "delete": "DELETE", "deletecollection": "DELETECOLLECTION", "post": "POST", "put": "PUT", "head": "GET",
}  # fmt: skip
_READS: Final = ("get", "list")

Labels = tuple[str, ...]


def instrument(*, request_log: bool = False) -> Instrument:
    """Return what adds metrics, and a log of all requests: at INFO when asked for, at DEBUG always."""

    def instruments(hub: Hub) -> Instruments:
        counted = ApiMetrics(hub, metrics.Registry())
        level = logging.INFO if request_log else logging.DEBUG
        return Instruments((counted, RequestLog(level)), (counted.page,))

    return instruments


class ApiMetrics:
    """Counts requests and objects."""

    def __init__(self, hub: Hub, registry: metrics.Registry) -> None:
        self._hub, self._registry = hub, registry
        process_metrics.register(registry)
        self._requests = registry.counter(
            "apiserver_request_total",
            "Requests by what they asked for and how they ended.",
            (*LABELS, "code"),
        )
        self._seconds = registry.histogram(
            "apiserver_request_duration_seconds", "How long requests took.", LABELS, BUCKETS
        )
        self._working = registry.gauge(
            "apiserver_current_inflight_requests", "Requests that are being worked on.", ("request_kind",)
        )
        for kind in ("readOnly", "mutating"):
            self._working.labels(kind).set(0)
        self._watches = registry.gauge("apiserver_longrunning_requests", "Watches that are open.", LABELS)
        self._objects = registry.gauge(
            "apiserver_storage_objects", "Objects that are stored, by resource.", ("resource",)
        )
        self._refused = registry.counter(
            "nodemanager_host_quota_refusals_total",
            "Writes of a host that were refused, as too much of it is there.",
            ("namespace", "node", "quota"),
        )
        fullest = registry.gauge(
            "nodemanager_host_quota_used_ratio", "How full the fullest quota of any host is.", ("quota",)
        )
        if isinstance(hub.quota, Quotas):
            for quota in host_quotas.LIMITS:
                fullest.labels(quota).set_function(functools.partial(hub.quota.fullest, quota))
        revision = registry.gauge("apiserver_storage_revision", "The revision of the last change.")
        revision.labels().set_function(lambda: hub.store.revision)
        self._known: set[Labels] = set()
        self._counted: set[str] = set()

    def begun(self, seen: Observation) -> None:
        """Count a request that is being worked on."""
        self._work(seen, 1)

    def ended(self, seen: Observation) -> None:
        """Count a request that has ended."""
        if seen.kind is not None:
            self._work(seen, -1)
        labels = _labels(seen)
        if labels not in self._known and len(self._known) >= MAX_SERIES:
            labels = _OTHERS
        self._known.add(labels)
        self._requests.labels(*labels, str(seen.code)).inc()
        self._seconds.labels(*labels).observe(seen.seconds)

    def page(self, request: web.Request) -> web.Response | None:
        """Answer `/metrics`; RBAC has already decided whether the user may read it."""
        if request.path != PATH or request.method not in ("GET", "HEAD"):
            return None
        self._count_objects()
        if isinstance(self._hub.quota, Quotas):
            for owner, count in self._hub.quota.refused.items():
                series = self._refused.labels(*owner)
                series.inc(count - series.get())
        text = self._registry.render().encode("utf-8", "replace")
        return web.Response(body=text, headers={"Content-Type": metrics.CONTENT_TYPE})

    def _work(self, seen: Observation, change: int) -> None:
        verb = seen.info.verb if seen.info else ""
        if verb != "watch":
            self._working.labels("readOnly" if verb in _READS else "mutating").inc(change)
            return
        labels = _labels(seen)
        series = self._watches.labels(*labels)
        series.inc(change)
        if series.get() == 0:  # so that no more series are kept than watches are open
            self._watches.remove(*labels)

    def _count_objects(self) -> None:
        kept = {kind.prefix(): kind.qualified_name for kind in self._hub.catalogue if "list" in kind.verbs}
        for name in self._counted - set(kept.values()):
            self._objects.remove(name)
        for prefix, name in kept.items():
            self._objects.labels(name).set(len(self._hub.store.list(prefix).records))
        self._counted = set(kept.values())


_OTHERS: Final = (OTHER, "", "", OTHER, "", "")


def _labels(seen: Observation) -> Labels:
    """Return the label values of a request, all of which are from tables of ours."""
    info, kind = seen.info, seen.kind
    verb = _VERBS.get(info.verb, OTHER) if info else OTHER
    if verb == "PATCH" and "apply-patch" in seen.content_type:
        verb = "APPLY"
    if info is None or (info.is_resource and kind is None):
        return (verb, "", "", OTHER, "", "")
    if kind is None:
        return (verb, "", "", "", "", "")
    # Custom kinds answer for the subresources they have; the resolver has refused all others.
    scope = "resource" if info.name else "namespace" if info.namespace else "cluster"
    return (verb, kind.group, kind.version, kind.plural, info.subresource, scope)
