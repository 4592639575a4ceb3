"""Which requests an audit log tells of, and how much: `audit.k8s.io/v1 Policy`. Pure.

The first rule that fits a request decides; a request that none fits is not logged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from nodemanager.kube import errors
from nodemanager.kube.rbac.identity import User
from nodemanager.server.http.routing import RequestInfo

API_VERSION: Final = "audit.k8s.io/v1"
STAGES: Final = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")
WRITTEN_STAGE: Final = "ResponseComplete"
"""The one stage that is written: when a request has ended."""


class AuditLevel(IntEnum):
    """How much of a request is logged."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3


LEVELS: Final = {
    "None": AuditLevel.NONE,
    "Metadata": AuditLevel.METADATA,
    "Request": AuditLevel.REQUEST,
    "RequestResponse": AuditLevel.REQUEST_RESPONSE,
}
NAMES: Final = {level: name for name, level in LEVELS.items()}


@dataclass(frozen=True, slots=True)
class Resources:
    """Some resources of one group; no resources = all of them."""

    group: str = ""
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def fits(self, info: RequestInfo) -> bool:
        """Tell whether a request is about one of them."""
        if info.group != self.group or (self.names and info.name not in self.names):
            return False
        whole = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        alike = {whole, "*", f"{info.resource}/*" if info.subresource else whole, f"*/{info.subresource}"}
        return not self.resources or any(one in alike for one in self.resources)


@dataclass(frozen=True, slots=True)
class AuditRule:
    """What is logged of the requests that match all fields; an empty field matches all."""

    level: AuditLevel
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    resources: tuple[Resources, ...] = ()
    paths: tuple[str, ...] = ()

    def fits(self, info: RequestInfo, user: User) -> bool:
        """Tell whether the rule matches a request of a user."""
        if self.users and user.name not in self.users:
            return False
        if self.groups and not set(self.groups) & set(user.groups):
            return False
        if self.verbs and info.verb not in self.verbs:
            return False
        if not info.is_resource:
            return not (self.namespaces or self.resources) and self._fits_path(info.path)
        if self.paths or (self.namespaces and info.namespace not in self.namespaces):
            return False
        return not self.resources or any(one.fits(info) for one in self.resources)

    def _fits_path(self, path: str) -> bool:
        return not self.paths or any(
            path == one or (one.endswith("*") and path.startswith(one[:-1])) for one in self.paths
        )


@dataclass(frozen=True, slots=True)
class AuditPolicy:
    """Rules in the order in which they are asked."""

    rules: tuple[AuditRule, ...] = ()

    def level(self, info: RequestInfo, user: User) -> AuditLevel:
        """Return how much of a request is logged."""
        return next((rule.level for rule in self.rules if rule.fits(info, user)), AuditLevel.NONE)


def read(value: Any) -> AuditPolicy:
    """Read a policy from what was in its file; raise ConfigError that names field and value."""
    found = _fields(value, "", ("apiVersion", "kind", "metadata", "rules", "omitStages"))
    if (found.get("apiVersion"), found.get("kind")) != (API_VERSION, "Policy"):
        given = f"{found.get('apiVersion')} {found.get('kind')}"
        raise _wrong("apiVersion and kind", given, f"an audit policy is {API_VERSION} Policy")
    silent = WRITTEN_STAGE in _stages(found, "omitStages")
    rules = found.get("rules")
    if not isinstance(rules, list) or not rules:
        raise _wrong("rules", rules, "give at least one rule")
    return AuditPolicy(
        tuple(_rule(rule, f"rules[{index}]", silent=silent) for index, rule in enumerate(rules))
    )


def _rule(value: Any, at: str, *, silent: bool) -> AuditRule:
    known = (
        "level", "users", "userGroups", "verbs", "namespaces", "resources", "nonResourceURLs", "omitStages",
    )  # fmt: skip
    found = _fields(value, at, known)
    level = LEVELS.get(found.get("level", ""))
    if level is None:
        raise _wrong(f"{at}.level", found.get("level"), f"one of {', '.join(LEVELS)}")
    if found.get("resources") and found.get("nonResourceURLs"):
        raise _wrong(at, "resources and nonResourceURLs", "a rule is about one of them")
    silent = silent or WRITTEN_STAGE in _stages(found, f"{at}.omitStages")
    resources = found.get("resources") or []
    if not isinstance(resources, list):
        raise _wrong(f"{at}.resources", resources, "a list")
    return AuditRule(
        AuditLevel.NONE if silent else level,
        users=_texts(found, "users", at),
        groups=_texts(found, "userGroups", at),
        verbs=_texts(found, "verbs", at),
        namespaces=_texts(found, "namespaces", at),
        resources=tuple(_resources(one, f"{at}.resources[{index}]") for index, one in enumerate(resources)),
        paths=_texts(found, "nonResourceURLs", at),
    )


def _resources(value: Any, at: str) -> Resources:
    found = _fields(value, at, ("group", "resources", "resourceNames"))
    group = found.get("group", "")
    if not isinstance(group, str):
        raise _wrong(f"{at}.group", group, "a text; that of the core is empty")
    names = _texts(found, "resourceNames", at)
    resources = _texts(found, "resources", at)
    if names and not resources:
        raise _wrong(f"{at}.resourceNames", list(names), "say of which resources")
    return Resources(group, resources, names)


def _stages(found: Mapping[str, Any], at: str) -> tuple[str, ...]:
    stages = _texts(found, "omitStages", at.rpartition(".")[0])
    for stage in stages:
        if stage not in STAGES:
            raise _wrong(at, stage, f"one of {', '.join(STAGES)}")
    return stages


def _fields(value: Any, at: str, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(at or "the policy", value, "an object")
    for name in value:
        if name not in known:
            raise _wrong(f"{at}.{name}".lstrip("."), value[name], "this server does not know that field")
    return value


def _texts(found: Mapping[str, Any], name: str, at: str) -> tuple[str, ...]:
    values = found.get(name) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise _wrong(f"{at}.{name}".lstrip("."), values, "a list of texts")
    return tuple(values)


def _wrong(field: str, value: Any, why: str) -> errors.ConfigError:
    return errors.ConfigError(f"cannot use the audit policy: {field}: {value!r}: {why}")
