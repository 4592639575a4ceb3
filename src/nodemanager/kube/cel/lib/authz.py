"""authorizer: may a user do something? Asked in the words of a policy, answered by the host of CEL.

authorizer.group("apps").resource("deployments").namespace("x").check("get").allowed()
authorizer.serviceAccount("x", "builder").path("/healthz").check("get").allowed()
authorizer.requestResource.check("custom").allowed()
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from nodemanager.kube.cel.errors import CelError
from nodemanager.kube.cel.registry import Library
from nodemanager.kube.cel.types import Type
from nodemanager.kube.cel.values import CelExtension
from nodemanager.kube.object_names import is_object_name
from nodemanager.kube.rbac.identity import (
    Attributes,
    User,
    service_account_groups,
    service_account_user,
)
from nodemanager.kube.rbac.rules import AccessDecision

LIBRARY = Library()
_PACKAGE = "kubernetes.authorization"
_AUTHORIZER, _PATH = f"{_PACKAGE}.Authorizer", f"{_PACKAGE}.PathCheck"
_GROUP, _RESOURCE = f"{_PACKAGE}.GroupCheck", f"{_PACKAGE}.ResourceCheck"
_DECISION = f"{_PACKAGE}.Decision"
AUTHORIZER_TYPE = Type(_AUTHORIZER, fields={"requestResource": Type(_RESOURCE)})
"""The type of the variable that policies are given."""

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

Decide = Callable[[User, Attributes], AccessDecision]


@dataclass(frozen=True, slots=True, eq=False)
class AuthorizerValue(CelExtension):
    """A user, and the function that decides what they may do."""

    TYPE: ClassVar[str] = _AUTHORIZER
    user: User
    decide: Decide
    request: Attributes | None = None
    """What the request at hand is about."""

    def field(self, name: str) -> Any:
        """Return the check for the resource of the request."""
        if name == "requestResource" and self.request is not None:
            return ResourceCheck(self.user, self.decide, self.request)
        raise CelError(f"no such key: {name}")


@dataclass(frozen=True, slots=True, eq=False)
class _Question(CelExtension):
    """A user, the deciding function, and the question so far."""

    user: User
    decide: Decide
    asked: Attributes


class PathCheck(_Question):
    """A question about a path that is no resource, the verb still missing."""

    TYPE = _PATH
    __slots__ = ()


class GroupCheck(_Question):
    """A question about an API group, the resource still missing."""

    TYPE = _GROUP
    __slots__ = ()


class ResourceCheck(_Question):
    """A question about a resource, the verb still missing."""

    TYPE = _RESOURCE
    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class DecisionValue(CelExtension):
    """An answer."""

    TYPE: ClassVar[str] = _DECISION
    decision: AccessDecision


@LIBRARY.add("serviceAccount", f"{_AUTHORIZER}.(string, string) -> {_AUTHORIZER}")
def _service_account(value: AuthorizerValue, namespace: str, name: str) -> AuthorizerValue:
    if not is_object_name(name):
        raise CelError("Invalid service account name")
    if not _LABEL.fullmatch(namespace):
        raise CelError("Invalid service account namespace")
    user = User(service_account_user(namespace, name), service_account_groups(namespace))
    return AuthorizerValue(user, value.decide)


@LIBRARY.add("path", f"{_AUTHORIZER}.(string) -> {_PATH}")
def _path(value: AuthorizerValue, path: str) -> PathCheck:
    if not path.strip():
        raise CelError("path must not be empty")
    return PathCheck(value.user, value.decide, Attributes("", path=path))


@LIBRARY.add("group", f"{_AUTHORIZER}.(string) -> {_GROUP}")
def _group(value: AuthorizerValue, group: str) -> GroupCheck:
    return GroupCheck(value.user, value.decide, Attributes("", group=group, version="*"))


@LIBRARY.add("resource", f"{_GROUP}.(string) -> {_RESOURCE}")
def _resource(value: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise CelError("resource must not be empty")
    return ResourceCheck(value.user, value.decide, replace(value.asked, resource=resource))


def _narrowing(part: str) -> None:
    def narrowed(value: ResourceCheck, text: str) -> ResourceCheck:
        more: dict[str, Any] = {part: text}
        return replace(value, asked=replace(value.asked, **more))

    LIBRARY.add(part, f"{_RESOURCE}.(string) -> {_RESOURCE}")(narrowed)


for _part in ("subresource", "namespace", "name"):
    _narrowing(_part)


@LIBRARY.add("fieldSelector", f"{_RESOURCE}.(string) -> {_RESOURCE}")
@LIBRARY.add("labelSelector", f"{_RESOURCE}.(string) -> {_RESOURCE}")
def _selector(value: ResourceCheck, _selector: str) -> ResourceCheck:
    return value  # RBAC, the only authorisation there is here, does not look at selectors


@LIBRARY.add("check", f"{_PATH}.(string) -> {_DECISION}", f"{_RESOURCE}.(string) -> {_DECISION}")
def _check(value: PathCheck | ResourceCheck, verb: str) -> DecisionValue:
    return DecisionValue(value.decide(value.user, replace(value.asked, verb=verb)))


LIBRARY.add("allowed", f"{_DECISION}.() -> bool")(lambda value: value.decision.allowed)
LIBRARY.add("reason", f"{_DECISION}.() -> string")(lambda value: value.decision.reason)
LIBRARY.add("errored", f"{_DECISION}.() -> bool")(lambda _value: False)  # our answers come from memory
LIBRARY.add("error", f"{_DECISION}.() -> string")(lambda _value: "")
