"""The user and the action: the two halves of every question to authorisation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from nodemanager.kube.object_names import is_object_name

ANONYMOUS: Final = "system:anonymous"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
MASTERS: Final = "system:masters"
"""Members may do everything; no rule is looked at."""
NODES: Final = "system:nodes"
SERVICE_ACCOUNTS: Final = "system:serviceaccounts"

CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
POD_NAME: Final = "authentication.kubernetes.io/pod-name"
POD_UID: Final = "authentication.kubernetes.io/pod-uid"
NODE_NAME: Final = "authentication.kubernetes.io/node-name"
NODE_UID: Final = "authentication.kubernetes.io/node-uid"

_ACCOUNT_PREFIX = "system:serviceaccount:"
_NODE_PREFIX = "system:node:"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class User:
    """A user that authentication has identified."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    impersonator: User | None = field(default=None, compare=False)
    """The real user behind an impersonated one: for records, never for a decision."""

    def with_group(self, group: str) -> User:
        """Return the same user, also a member of a group."""
        return self if group in self.groups else replace(self, groups=(*self.groups, group))

    def info(self) -> dict[str, Any]:
        """Return the user as reviews show it, `authentication.k8s.io/v1 UserInfo`."""
        shown: dict[str, Any] = {"username": self.name, "uid": self.uid, "groups": list(self.groups)}
        shown["extra"] = {key: list(self.extra[key]) for key in sorted(self.extra)}
        return {key: value for key, value in shown.items() if value}


@dataclass(frozen=True, slots=True)
class Attributes:
    """What authorisation decides about: one verb on a resource, or on a path that is none."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    """Set only for requests that are not about a resource, such as `/version`."""
    bare_path: bool = False
    """Set when a review asks about a path that is empty: nothing else tells it from a resource."""

    @property
    def about_path(self) -> bool:
        """Whether this is about a path, and not about a resource."""
        return self.bare_path or bool(self.path)

    @property
    def full_resource(self) -> str:
        """`resource/subresource`, as rules and refusals write it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def service_account_user(namespace: str, name: str) -> str:
    """Return the user name of a ServiceAccount."""
    return f"{_ACCOUNT_PREFIX}{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups every ServiceAccount of a namespace is in."""
    return SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}"


def split_service_account(username: str) -> tuple[str, str] | None:
    """Return namespace and name behind a user name, or None when no ServiceAccount can be called so."""
    if not username.startswith(_ACCOUNT_PREFIX):
        return None
    namespace, colon, name = username.removeprefix(_ACCOUNT_PREFIX).partition(":")
    if not colon or not _LABEL.fullmatch(namespace) or not is_object_name(name):
        return None
    return namespace, name


def split_node(username: str) -> str | None:
    """Return the node's name behind a user name, or None when it is not one of a node."""
    name = username.removeprefix(_NODE_PREFIX)
    return name if username.startswith(_NODE_PREFIX) and is_object_name(name) else None


def is_domain_path(key: str) -> bool:
    """Tell whether a text is a domain, a slash, and something: `acme.io/role`."""
    domain, _, rest = key.partition("/")
    return (
        bool(rest)
        and is_object_name(domain)
        and re.fullmatch(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", rest) is not None
    )
