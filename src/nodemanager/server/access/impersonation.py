"""Acting as another user: the sender must be allowed to be that user, and each group, uid and extra.

Kubernetes has modes. In the constrained ones the verb that is asked for must be allowed under
impersonation as well (`impersonate-on:<mode>:<verb>`); the old one, with the verb `impersonate`,
comes last. The refusal that is shown is that of the first mode which applied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import unquote

from nodemanager.kube import errors
from nodemanager.kube.go.text import quote
from nodemanager.kube.rbac import identity
from nodemanager.kube.rbac.identity import Attributes, User
from nodemanager.server.access.access_errors import may_not
from nodemanager.server.access.authz import Authorizer

_AUTHENTICATION: Final = "authentication.k8s.io"
_PREFIX: Final = "impersonate-"
_EXTRA: Final = "impersonate-extra-"
_MANY: Final = 4
"""From how many groups or extras on the constrained modes first ask about all at once."""
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def wanted_user(headers: Iterable[tuple[str, str]]) -> User | None:
    """Return the user whom the headers of a request want to be; None if they name none."""
    name, uid = "", ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}
    for header, value in headers:
        lowered = header.lower()
        if not lowered.startswith(_PREFIX):
            continue
        if lowered == "impersonate-user":
            name = name or value
        elif lowered == "impersonate-uid":
            uid = uid or value
        elif lowered == "impersonate-group":
            groups.append(value)
        elif lowered.startswith(_EXTRA):
            extra.setdefault(_extra_key(lowered.removeprefix(_EXTRA)), []).append(value)
    wanted = User(name, tuple(groups), uid, {key: tuple(extra[key]) for key in sorted(extra)})
    if name:
        return wanted
    if uid or groups or extra:
        raise errors.BadRequest(f"requested {_go_syntax(wanted)} without impersonating a user name")
    return None


def _extra_key(encoded: str) -> str:
    return encoded if _BROKEN_ESCAPE.search(encoded) else unquote(encoded)


def _go_syntax(user: User) -> str:
    pairs = ", ".join(f"{quote(key)}:{_go_strings(values)}" for key, values in user.extra.items())
    extra = f"map[string][]string{{{pairs}}}" if user.extra else "map[string][]string(nil)"
    return (
        f"&user.DefaultInfo{{Name:{quote(user.name)}, UID:{quote(user.uid)}, "
        f"Groups:{_go_strings(user.groups)}, Extra:{extra}}}"
    )


def _go_strings(values: tuple[str, ...]) -> str:
    return f"[]string{{{', '.join(map(quote, values))}}}" if values else "[]string(nil)"


def impersonate(authorizer: Authorizer, user: User, wanted: User, asked: Attributes) -> User:
    """Return the user that a request is carried out as, or raise Forbidden."""
    refusal: errors.Forbidden | None = None
    for mode in _modes(user, wanted):
        try:
            return _Attempt(authorizer, user, wanted, mode).check(asked)
        except errors.Forbidden as err:
            refusal = refusal or err
    raise refusal or may_not(user, asked)


def _modes(user: User, wanted: User) -> list[str]:
    """Return the modes that apply, in the order they are tried; the empty one is the old one."""
    node = identity.split_node(wanted.name)
    account = identity.split_service_account(wanted.name)
    alone = not (wanted.uid or wanted.groups or wanted.extra)
    modes = []
    if node is not None and alone:
        is_account = identity.split_service_account(user.name) is not None
        if is_account and user.extra.get(identity.NODE_NAME) == (node,):
            modes.append("associated-node")
        modes.append("arbitrary-node")
    if account is not None and alone:
        modes.append("serviceaccount")
    if node is None and account is None:
        modes.append("user-info")
    return [*modes, ""]


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One user's try to be another in one mode."""

    authorizer: Authorizer
    user: User
    wanted: User
    mode: str

    @property
    def _verb(self) -> str:
        return f"impersonate:{self.mode}" if self.mode else "impersonate"

    @property
    def _group(self) -> str:
        """The API group of users and groups, which only the old mode keeps in the core group."""
        return _AUTHENTICATION if self.mode else ""

    def check(self, asked: Attributes) -> User:
        if self.mode:
            self._require(replace(asked, verb=f"impersonate-on:{self.mode}:{asked.verb}"))
        actual = self._check_name()
        if self.wanted.uid:
            self._require(Attributes(self._verb, _AUTHENTICATION, "v1", "uids", name=self.wanted.uid))
        self._check_groups()
        self._check_extra()
        if actual.name == identity.ANONYMOUS:
            return actual.with_group(identity.UNAUTHENTICATED)
        if identity.UNAUTHENTICATED in actual.groups:
            return actual
        return actual.with_group(identity.AUTHENTICATED)

    def _require(self, asked: Attributes) -> None:
        self.authorizer.require(self.user, asked)

    def _check_name(self) -> User:
        asked = Attributes(self._verb, self._group, "v1", "users", name=self.wanted.name)
        actual = self.wanted
        node = identity.split_node(self.wanted.name) if self.mode else None
        if node is not None:
            # The check for a node's own account must hold for every node it could be on.
            name = "*" if self.mode == "associated-node" else node
            asked = replace(asked, resource="nodes", name=name)
            actual = replace(actual, groups=(identity.NODES,))
        account = identity.split_service_account(self.wanted.name)
        if account is not None:
            asked = replace(asked, resource="serviceaccounts", namespace=account[0], name=account[1])
            if not self.wanted.groups:
                actual = replace(actual, groups=identity.service_account_groups(account[0]))
        self._require(asked)
        return actual

    def _check_groups(self) -> None:
        groups = self.wanted.groups
        asked = Attributes(self._verb, self._group, "v1", "groups")
        if self.mode:
            if "" in groups:
                raise may_not(self.user, asked, "impersonating the empty string group is not allowed")
            if identity.MASTERS in groups:
                why = "impersonating the system:masters group is not allowed"
                raise may_not(self.user, replace(asked, name=identity.MASTERS), why)
            if len(groups) >= _MANY and self._allowed(replace(asked, name="*")):
                return
        for group in groups:
            self._require(replace(asked, name=group))

    def _check_extra(self) -> None:
        extra = self.wanted.extra
        asked = Attributes(self._verb, _AUTHENTICATION, "v1", "userextras")
        if self.mode:
            for key, values in extra.items():
                self._check_key(asked, key, values)
            many = sum(map(len, extra.values())) >= _MANY
            if many and self._allowed(replace(asked, subresource="*", name="*")):
                return
        for key, values in extra.items():
            for value in values:
                self._require(replace(asked, subresource=key, name=value))

    def _check_key(self, asked: Attributes, key: str, values: tuple[str, ...]) -> None:
        if not key:
            raise may_not(self.user, asked, "impersonating the empty string key in extra is not allowed")
        if not identity.is_domain_path(key):
            why = f'Invalid value: {quote(key)}: must be a domain-prefixed path (such as "acme.io/foo")'
            raise may_not(
                self.user, asked, f"impersonating an invalid key in extra is not allowed: extra.key: {why}"
            )
        if key != key.lower():
            why = f"impersonating a non-lowercase key in extra is not allowed: {quote(key)}"
            raise may_not(self.user, asked, why)
        if "" in values:
            raise may_not(self.user, asked, "impersonating the empty string value in extra is not allowed")

    def _allowed(self, asked: Attributes) -> bool:
        return self.authorizer.decide(self.user, asked).allowed
