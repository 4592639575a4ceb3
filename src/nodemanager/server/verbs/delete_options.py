"""The options of a deletion, read from the body or else from the query, and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nodemanager.kube import errors, json_values
from nodemanager.server.http import bodies, refusals
from nodemanager.server.http.routing import is_true
from nodemanager.server.hub import ApiCall

POLICIES = ("Foreground", "Background", "Orphan")
_GRACE_MAX = 2**31


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete."""

    dry_run: bool = False
    uid: str = ""
    revision: str = ""
    grace: int | None = None
    policy: str = ""
    """One of POLICIES, or empty for what the object's finalizers say."""
    orphan: bool | None = None
    """The old spelling of the policy; never together with it."""

    def shown(self) -> dict[str, Any]:
        """Return the options as an object, the way admission sees them."""
        only_if = {"uid": self.uid, "resourceVersion": self.revision}
        options = {
            "dryRun": ["All"] if self.dry_run else None,
            "gracePeriodSeconds": self.grace,
            "orphanDependents": self.orphan,
            "preconditions": {key: value for key, value in only_if.items() if value} or None,
            "propagationPolicy": self.policy or None,
        }
        given = {key: value for key, value in options.items() if value is not None}
        return {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", **given}


def delete_options(call: ApiCall) -> DeleteOptions:
    """Read and check the options of a deletion; a body, even an empty object, hides the query."""
    return parse_options(_body(call) if call.body.strip() else _from_query(call.query))


def parse_options(given: Mapping[str, Any]) -> DeleteOptions:
    """Check the options of a deletion."""
    dry_run = given.get("dryRun") or []
    policy, orphan = given.get("propagationPolicy") or "", given.get("orphanDependents")
    if orphan is not None and not isinstance(orphan, bool):
        found = json_values.json_type(orphan)
        raise errors.BadRequest(
            f"json: cannot unmarshal {found} into Go struct field DeleteOptions.orphanDependents of type bool"
        )
    causes = []
    if dry_run not in ([], ["All"]):
        causes.append(refusals.value_unsupported("dryRun", dry_run, ("All",)))
    if policy and orphan is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(refusals.value_invalid("propagationPolicy", policy, why))
    if policy and policy not in POLICIES:
        causes.append(refusals.value_unsupported("propagationPolicy", policy, (*POLICIES, "nil")))
    if causes:
        raise refusals.invalid_options("DeleteOptions", causes)
    only_if = given.get("preconditions") or {}
    if not isinstance(only_if, dict):
        raise errors.BadRequest("cannot read DeleteOptions: preconditions is not an object")
    uid, revision = str(only_if.get("uid") or ""), str(only_if.get("resourceVersion") or "")
    grace = _grace(given.get("gracePeriodSeconds"))
    return DeleteOptions(bool(dry_run), uid, revision, grace, policy, orphan)


def _from_query(query: Mapping[str, str]) -> dict[str, Any]:
    given: dict[str, Any] = {
        field: query[field] for field in ("propagationPolicy", "gracePeriodSeconds") if query.get(field)
    }
    if query.get("dryRun"):
        given["dryRun"] = [query["dryRun"]]
    if "orphanDependents" in query:
        given["orphanDependents"] = is_true(query["orphanDependents"])
    return given


def _body(call: ApiCall) -> dict[str, Any]:
    try:
        given = bodies.decode(call.body, call.content_type)
    except ValueError as error:
        raise errors.BadRequest(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(given, dict) or given.get("kind", "DeleteOptions") != "DeleteOptions":
        raise errors.BadRequest("cannot read the body: it is not a DeleteOptions")
    return given


def _grace(grace: Any) -> int | None:
    if grace is None:
        return None
    text = str(grace)
    if isinstance(grace, bool) or not text.lstrip("-").isdecimal() or abs(int(text)) > _GRACE_MAX:
        raise errors.BadRequest(f"cannot read gracePeriodSeconds: {text[:20]!r} is not a number of seconds")
    return max(1, int(text)) if int(text) < 0 else int(text)
