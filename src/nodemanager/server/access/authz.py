"""Authorisation: the present RBAC objects, compiled when they change, asked on every request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from nodemanager.kube.rbac import roles as rbac_roles
from nodemanager.kube.rbac.identity import MASTERS, Attributes, User
from nodemanager.kube.rbac.rules import AccessDecision, Object, RbacPolicy, RoleScope, allowed
from nodemanager.server.access import access_errors

MAX_DECISIONS = 8192
"""How many answers are remembered until the next change; clients choose what they ask."""
MAX_SCOPES = 1024
"""How many namespaces stay compiled; clients choose those, too."""


class RoleLister(Protocol):
    """Where the RBAC objects are."""

    @property
    def revision(self) -> int:
        """A number that changes with every change to one of them."""

    def roles(self, namespace: str) -> Iterable[Object]:
        """Return the Roles of a namespace; without one, all ClusterRoles."""

    def bindings(self, namespace: str) -> Iterable[Object]:
        """Return the RoleBindings of a namespace; without one, all ClusterRoleBindings."""


_Key = tuple[str, tuple[str, ...], Attributes]


class Authorizer:
    """Answers whether a user may do something, from RBAC alone."""

    def __init__(self, lister: RoleLister) -> None:
        self._lister = lister
        self._revision: int | None = None
        self._cluster: RoleScope | None = None
        self._scopes: dict[str, RoleScope] = {}
        self._decisions: dict[_Key, AccessDecision] = {}

    def policy(self, namespace: str = "") -> RbacPolicy:
        """Return what decides in a namespace right now."""
        self._forget_if_changed()
        if self._cluster is None:
            self._cluster = rbac_roles.compile_cluster(self._lister.roles(""), self._lister.bindings(""))
        return RbacPolicy(self._cluster, self._scope(namespace) if namespace else None)

    def decide(self, user: User, asked: Attributes) -> AccessDecision:
        """Answer one question."""
        if MASTERS in user.groups:
            return AccessDecision(True)
        self._forget_if_changed()
        key = (user.name, user.groups, asked)
        found = self._decisions.get(key)
        if found is None:
            if len(self._decisions) >= MAX_DECISIONS:
                self._decisions.clear()
            found = self._decisions[key] = allowed(user, asked, self.policy(asked.namespace))
        return found

    def require(self, user: User, asked: Attributes) -> None:
        """Return if a user may do something; otherwise raise Forbidden as Kubernetes words it."""
        decision = self.decide(user, asked)
        if not decision.allowed:
            raise access_errors.may_not(user, asked, decision.reason)

    def _scope(self, namespace: str) -> RoleScope:
        scope = self._scopes.get(namespace)
        if scope is None:
            if len(self._scopes) >= MAX_SCOPES:
                self._scopes.clear()
            scope = self._scopes[namespace] = rbac_roles.compile_namespace(
                namespace, self._lister.roles(namespace), self._lister.bindings(namespace)
            )
        return scope

    def _forget_if_changed(self) -> None:
        revision = self._lister.revision
        if revision != self._revision:
            self._revision, self._cluster = revision, None
            self._scopes.clear()
            self._decisions.clear()
