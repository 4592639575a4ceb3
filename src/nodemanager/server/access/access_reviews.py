"""The reviews: objects that are questions, answered and not kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec

from nodemanager.kube import errors, times
from nodemanager.kube.errors import Cause
from nodemanager.kube.objects import Struct
from nodemanager.kube.rbac.identity import Attributes, User
from nodemanager.kube.rbac.rules import PolicyRule
from nodemanager.kube.schemas import faults
from nodemanager.server.access.access_errors import invalid
from nodemanager.server.access.authz import Authorizer

AUTHORIZATION: Final = "authorization.k8s.io"
AUTHENTICATION: Final = "authentication.k8s.io"

Body = Mapping[str, Any]
T = TypeVar("T")


class ResourceAttributes(Struct):
    """A question about a resource. Selectors are accepted and ignored, as RBAC does."""

    namespace: str = ""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    field_selector: dict[str, Any] | None = None
    label_selector: dict[str, Any] | None = None


class NonResourceAttributes(Struct):
    """A question about a path."""

    path: str = ""
    verb: str = ""


class AccessReviewSpec(Struct):
    """The question; without a user it is about the sender."""

    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None
    user: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}
    uid: str = ""


class RulesSpec(Struct):
    """Where the rules are asked for."""

    namespace: str = ""


def decode(kind: str, spec: Any, into: type[T]) -> T:
    """Read the spec of a review; null is absent, unknown fields are ignored."""
    try:
        return msgspec.convert(_without_nulls({} if spec is None else spec), into)
    except msgspec.ValidationError as err:
        raise errors.BadRequest(f'{kind} in version "v1" cannot be handled as a {kind}: {err}') from err


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    return value


def subject_access_review(authorizer: Authorizer, body: Body) -> dict[str, Any]:
    """Answer whether a named user may do something."""
    kind = "SubjectAccessReview"
    spec = decode(kind, body.get("spec"), AccessReviewSpec)
    _refuse([*_question_causes(spec), *_user_causes(spec), *_metadata_causes(body, "must be empty")])
    return _answer(authorizer, kind, spec, _subject(spec), {})


def self_subject_access_review(authorizer: Authorizer, user: User, body: Body) -> dict[str, Any]:
    """Answer whether the one who asks may do something."""
    kind = "SelfSubjectAccessReview"
    spec = decode(kind, body.get("spec"), AccessReviewSpec)
    _refuse([*_question_causes(spec), *_metadata_causes(body, "must be empty")])
    asked = msgspec.structs.replace(spec, user="", groups=[], extra={}, uid="")
    return _answer(authorizer, kind, asked, user, {})


def local_subject_access_review(authorizer: Authorizer, namespace: str, body: Body) -> dict[str, Any]:
    """Answer whether a named user may do something in one namespace."""
    kind = "LocalSubjectAccessReview"
    spec = decode(kind, body.get("spec"), AccessReviewSpec)
    causes = [*_question_causes(spec), *_user_causes(spec)]
    causes += _metadata_causes(body, "must be empty except for namespace")
    resource, path = spec.resource_attributes, spec.non_resource_attributes
    if resource is not None and resource.namespace != namespace:
        causes.append(
            faults.invalid(
                "spec.resourceAttributes.namespace", resource.namespace, "must match metadata.namespace"
            )
        )
    if path is not None:
        causes.append(
            faults.invalid("spec.nonResourceAttributes", _shown(path), "disallowed on this kind of request")
        )
    _refuse(causes)
    return _answer(authorizer, kind, spec, _subject(spec), {"namespace": namespace})


def self_subject_rules_review(authorizer: Authorizer, user: User, body: Body) -> dict[str, Any]:
    """Return what the one who asks may do in a namespace."""
    kind = "SelfSubjectRulesReview"
    namespace = decode(kind, body.get("spec"), RulesSpec).namespace
    if not namespace:
        raise errors.BadRequest("no namespace on request")
    held = authorizer.policy(namespace).held(user)
    rules = list(held.rules())
    status: dict[str, Any] = {
        "resourceRules": [_resource_rule(rule) for rule in rules if rule.resources],
        "nonResourceRules": [
            {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.paths)} for rule in rules if rule.paths
        ],
        "incomplete": False,
    }
    errors_met = held.errors()
    if errors_met:
        status["evaluationError"] = errors_met
    return _object(AUTHORIZATION, kind, {}, {}, status)


def self_subject_review(user: User, now: datetime) -> dict[str, Any]:
    """Return the user who asks."""
    metadata = {"creationTimestamp": times.rfc3339(now)}
    review = _object(AUTHENTICATION, "SelfSubjectReview", metadata, {}, {"userInfo": user.info()})
    del review["spec"]
    return review


def _resource_rule(rule: PolicyRule) -> dict[str, Any]:
    shown = {"verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources}
    if rule.names:
        shown["resourceNames"] = rule.names
    return {key: list(values) for key, values in shown.items()}


def _subject(spec: AccessReviewSpec) -> User:
    extra = {key: tuple(values) for key, values in spec.extra.items()}
    return User(spec.user, tuple(spec.groups), spec.uid, extra)


def _answer(
    authorizer: Authorizer, kind: str, spec: AccessReviewSpec, user: User, metadata: dict[str, Any]
) -> dict[str, Any]:
    decision = authorizer.decide(user, _attributes(spec))
    status: dict[str, Any] = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return _object(AUTHORIZATION, kind, metadata, msgspec.to_builtins(spec), status)


def _attributes(spec: AccessReviewSpec) -> Attributes:
    path = spec.non_resource_attributes
    if path is not None:
        asked = Attributes(path.verb, path=path.path)
        return asked if path.path else replace(asked, bare_path=True)
    about = spec.resource_attributes or ResourceAttributes()
    return Attributes(
        about.verb,
        about.group,
        about.version or "*",
        about.resource,
        about.subresource,
        about.namespace,
        about.name,
    )


def _question_causes(spec: AccessReviewSpec) -> list[Cause]:
    resource, path = spec.resource_attributes, spec.non_resource_attributes
    if resource is not None and path is not None:
        why = "cannot be specified in combination with resourceAttributes"
        return [faults.invalid("spec.nonResourceAttributes", _shown(path), why)]
    if resource is None and path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [faults.invalid("spec.resourceAttributes", None, why)]
    return []


def _shown(path: NonResourceAttributes) -> dict[str, str]:
    # Kubernetes prints its internal type here, which has no JSON names.
    return {"Path": path.path, "Verb": path.verb}


def _user_causes(spec: AccessReviewSpec) -> list[Cause]:
    if spec.user or spec.groups:
        return []
    return [faults.invalid("spec.user", "", "at least one of user or group must be specified")]


def _metadata_causes(body: Body, why: str) -> list[Cause]:
    """Refuse metadata; a namespace never reaches validation, it comes from the URL."""
    given = _without_nulls(body.get("metadata") or {})
    left = {key: value for key, value in given.items() if key not in {"namespace", "managedFields"} and value}
    return [faults.invalid("metadata", left, why)] if left else []


def _refuse(causes: Sequence[Cause]) -> None:
    if causes:
        raise invalid(AUTHORIZATION, "", "", causes)


def _object(
    group: str, kind: str, metadata: dict[str, Any], spec: dict[str, Any], status: dict[str, Any]
) -> dict[str, Any]:
    return {
        "kind": kind,
        "apiVersion": f"{group}/v1",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }
