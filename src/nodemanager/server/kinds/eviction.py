"""`pods/eviction`: a deletion that asks the pod's disruption budget first, step by step as Kubernetes does.

    options, names -> is the pod past disturbing? -> its one budget -> spend one disruption -> delete

A budget is spent before the pod is deleted, in one write that only succeeds on the status that was
judged: two evictions can never spend the same disruption.

A pod on a node is only marked: as with kube-apiserver alone it stays, Terminating, until the program that
runs it deletes it with a grace of 0. A grace of 0 in the Eviction removes it at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from nodemanager.kube import errors
from nodemanager.kube.errors import Cause, StatusDetails
from nodemanager.kube.go.text import quote
from nodemanager.kube.objects import Untyped
from nodemanager.server.http import refusals
from nodemanager.server.hub import ApiAnswer, ApiCall, Hub
from nodemanager.server.kinds import budgets, builtin_behaviour
from nodemanager.server.kinds.builtin_kinds import BUDGETS, PODS
from nodemanager.server.kinds.resources import SUBRESOURCE_KINDS, ServedKind
from nodemanager.server.verbs import decoding, delete_options, deletion, internal_requests, read, stored
from nodemanager.server.verbs.delete_options import DeleteOptions
from nodemanager.server.verbs.options import WriteOptions, write_options
from nodemanager.store.base import KeyMissing, Mismatch, StoreRecord

EVICTION: Final = ServedKind(*SUBRESOURCE_KINDS["eviction"], "evictions", verbs=("create",))
TRIES: Final = 20
MAX_DISRUPTED: Final = 2000
"""With so many evictions that no controller has confirmed, none seems to run."""
RETRY_SECONDS: Final = 10
_BETA: Final = "policy/v1beta1"
"""What kubectl before 1.22 sends to drain a node; Kubernetes still reads it, too."""
_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_TARGET: Final = {
    "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}  # fmt: skip

Refresh = Callable[[Hub, StoreRecord], Awaitable[None]]
"""Brings the status of a budget up to date."""


class Evictions:
    """Answers POSTs to `pods/eviction`.

    With a `refresh` budgets are judged by the present pods; without one by the status that another
    controller keeps, which may be behind.
    """

    def __init__(self, refresh: Refresh | None = None) -> None:
        self._refresh = refresh

    async def __call__(self, hub: Hub, call: ApiCall) -> ApiAnswer:
        """Evict a pod, or say why not."""
        asked = write_options(call, "CreateOptions")
        obj, warnings = _read(call, asked)
        options = _options(obj.get("deleteOptions") or {}, asked)
        pod = await _deleted_unguarded(hub, call, options)
        if pod is not None:
            await self._evict_guarded(hub, call, pod, options)
        success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        return ApiAnswer(success, 201, warnings)

    async def _evict_guarded(self, hub: Hub, call: ApiCall, pod: Untyped, options: DeleteOptions) -> None:
        """Delete a pod if its budget lets us."""
        budget = _budget_of(hub, pod)
        if budget is None or await self._spend(hub, budget, pod, dry_run=options.dry_run):
            await _delete(hub, call, options)
        else:
            # It may go because it is not ready, so it must not have become ready since.
            unchanged = replace(options, revision=pod["metadata"]["resourceVersion"])
            try:
                await _delete(hub, call, unchanged)
            except errors.Conflict as error:
                if options.revision:
                    raise
                raise _unsettled(budget["metadata"]["name"]) from error

    async def _spend(self, hub: Hub, budget: Untyped, pod: Untyped, *, dry_run: bool) -> bool:
        """Take one disruption off a budget; return False when the pod is unhealthy and needs none."""
        name, namespace = budget["metadata"]["name"], budget["metadata"]["namespace"]
        for _ in range(TRIES):
            try:
                record = await self._fresh(hub, BUDGETS.key(namespace, name))
                if record is None:
                    raise refusals.not_found(BUDGETS, name)
                budget = stored.load(BUDGETS, record)
                if not budgets.is_ready(pod) and _lets_unhealthy_go(budget):
                    return False
                status = _spent(hub, budget, pod["metadata"]["name"])
                if not dry_run:
                    await internal_requests.save_status(hub, BUDGETS, record, {**budget, "status": status})
            except Mismatch:
                continue
            return True
        text = f"Timeout: couldn't update PodDisruptionBudget {quote(name)} due to conflicts"
        raise errors.ServerTimeout(text, details=StatusDetails(retry_after_seconds=RETRY_SECONDS))

    async def _fresh(self, hub: Hub, key: str) -> StoreRecord | None:
        record = hub.store.get(key)
        if record is None or self._refresh is None:
            return record
        await self._refresh(hub, record)
        return hub.store.get(key)


def _read(call: ApiCall, asked: WriteOptions) -> tuple[Untyped, tuple[str, ...]]:
    """Return the Eviction in the body, and what its sender is warned about."""
    obj, warnings = decoding.read_body(replace(call, kind=EVICTION), asked, older=_BETA)
    if obj["metadata"].get("namespace", call.namespace) != call.namespace:
        raise errors.BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if obj["metadata"].get("name") != call.info.name:
        raise errors.BadRequest("name in URL does not match name in Eviction object")
    return obj, warnings


def _options(given: dict[str, Any], asked: WriteOptions) -> DeleteOptions:
    """Return how to delete; a dry run can be asked for in the query, in the Eviction, or in both."""
    inside = given.get("dryRun") or []
    if asked.dry_run and inside not in ([], ["All"]):
        shown = " ".join(inside)
        raise refusals.internal(f"Non-matching dry-run options in request and content: [All] and [{shown}]")
    options = delete_options.parse_options(given)
    return replace(options, dry_run=options.dry_run or asked.dry_run)


async def _deleted_unguarded(hub: Hub, call: ApiCall, options: DeleteOptions) -> Untyped | None:
    """Delete a pod that no budget has to protect; return a pod that one may protect."""
    refused = refusals.modified(PODS, call.info.name)
    for _ in range(TRIES):
        pod = stored.load(PODS, read.find(hub, call))
        ended = budgets.phase(pod) in budgets.FINISHED or bool(pod["metadata"].get("deletionTimestamp"))
        if not ended and budgets.phase(pod) != "Pending":
            return pod
        strict = options
        if not ended and not options.revision:  # a pending pod must not have become ready since
            strict = replace(options, revision=pod["metadata"]["resourceVersion"])
        try:
            await _delete(hub, call, strict)
        except errors.Conflict as error:
            if options.revision:
                raise
            refused = error
        else:
            return None
    raise refused


def _budget_of(hub: Hub, pod: Untyped) -> Untyped | None:
    records = hub.store.list(BUDGETS.prefix(pod["metadata"]["namespace"])).records
    found = [
        one for one in (stored.load(BUDGETS, record) for record in records) if budgets.covered(one, [pod])
    ]
    if len(found) > 1:
        raise refusals.internal(_SEVERAL)
    return found[0] if found else None


def _lets_unhealthy_go(budget: Untyped) -> bool:
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def _spent(hub: Hub, budget: Untyped, pod: str) -> Untyped:
    """Return the status of a budget after one more disruption; refuse when it allows none."""
    meta, status = budget["metadata"], budget.get("status") or {}
    allowed, disrupted = status.get("disruptionsAllowed", 0), status.get("disruptedPods") or {}
    if status.get("observedGeneration", 0) < meta.get("generation", 0):
        raise _unsettled(meta["name"])
    if len(disrupted) > MAX_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise refusals.forbidden(replace(BUDGETS, plural="poddisruptionbudget"), meta["name"], why)
    if allowed <= 0:
        raise _violated(_explained(meta["name"], status))
    now = hub.now()
    status = {**status, "disruptionsAllowed": allowed - 1}
    if allowed == 1:
        status = budgets.with_condition(status, now)
    return {**status, "disruptedPods": {**disrupted, pod: budgets.stamp(now)}}


def _explained(name: str, status: Untyped) -> str:
    said = budgets.condition(status)
    reason = said.get("reason", "")
    message = said.get("message", "") if said.get("status") == "False" else ""
    desired, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    not_now = f"The disruption budget {name} does not allow evicting pods currently"
    if message and reason == budgets.SYNC_FAILED:  # first, because the numbers mean nothing then
        return f"{not_now} because it failed sync: {message}"
    if healthy <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    return f"{not_now} ({reason}): {message}" if message else not_now


def _violated(why: str, retry: int = 0) -> errors.TooManyRequests:
    cause = Cause(reason="DisruptionBudget", message=why)
    details = StatusDetails(causes=[cause], retry_after_seconds=retry)
    return errors.TooManyRequests(_VIOLATES, details=details)


def _unsettled(name: str) -> errors.TooManyRequests:
    why = f"The disruption budget {name} is still being processed by the server."
    return _violated(why, RETRY_SECONDS)


async def _delete(hub: Hub, call: ApiCall, options: DeleteOptions) -> None:
    """Say in the pod's status why it ends, and delete it."""
    record = read.find(hub, call)
    if not options.dry_run:
        record = await _mark(hub, call, record, options)
        if options.revision:
            options = replace(options, revision=str(record.revision))
    await deletion.delete_one(hub, call, record, options)


async def _mark(hub: Hub, call: ApiCall, record: StoreRecord, options: DeleteOptions) -> StoreRecord:
    """Set the DisruptionTarget condition of a pod."""
    for _ in range(TRIES):
        pod = stored.load(PODS, record)
        deletion.check_preconditions(call, pod, options)
        marked = {**pod, "status": budgets.with_said(pod.get("status") or {}, _TARGET, hub.timestamp())}
        if marked == pod:
            return record
        try:
            saved = await hub.store.update(record.key, stored.dump(PODS, marked), record.revision)
        except Mismatch as error:
            record = error.current
        except KeyMissing as error:
            raise refusals.not_found(PODS, call.info.name) from error
        else:
            builtin_behaviour.after_write(hub, PODS, saved)
            return saved
    raise refusals.modified(PODS, call.info.name)
