"""The operator's rights in the API: what its controllers need, and no more than our kinds allow.

It lets hosts read Secrets, and the API lets nobody grant what they have not got themselves. The alternative,
the verbs `escalate` and `bind`, would let it grant itself anything, up to the tokens of all hosts: see
docs/adr/0007-rights-of-the-operator.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from nodemanager.api import kinds
from nodemanager.api.kind_parts import READ, WRITE, IncompleteKind
from nodemanager.api.rights import host_rights, rbac_objects
from nodemanager.api.rights.rbac_objects import Object
from nodemanager.kube.objects import Resource

NAME: Final = host_rights.PREFIX + host_rights.OPERATOR
_ORDER: Final = (*READ, *WRITE)


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs that a controller needs on a kind, be it ours or not."""

    resource: Resource[Any]
    verbs: tuple[str, ...]
    subresource: str = ""
    names: tuple[str, ...] = ()
    """Only on objects of these names."""


def manifests(namespace: str, rights: Iterable[Right]) -> list[Object]:
    """Return the operator's account and its rights, in one namespace as far as the kinds are in one."""
    account = rbac_objects.account(NAME, namespace)
    return [rbac_objects.namespace(namespace), account, *more_manifests(NAME, namespace, rights)]


def more_manifests(name: str, namespace: str, rights: Iterable[Right]) -> list[Object]:
    """Return roles of the operator under a name: in its namespace, as far as the kinds are in one."""
    needed = [_allowed(right) for right in rights]
    account = rbac_objects.account(NAME, namespace)
    found: list[Object] = []
    if here := _rules(right for right in needed if right.resource.namespaced):
        found.append(rbac_objects.role("Role", name, namespace, here))
        found.append(rbac_objects.binding("RoleBinding", name, namespace, name, account))
    if nowhere := _rules(right for right in needed if not right.resource.namespaced):
        found.append(rbac_objects.role("ClusterRole", name, "", nowhere))
        own = _own(name, namespace)
        found.append(rbac_objects.binding("ClusterRoleBinding", own, "", name, account))
    return found


def _own(name: str, namespace: str) -> str:
    """Return the name of a binding: operators of several namespaces share rights, and each has its own."""
    return name if namespace == rbac_objects.OWN_NAMESPACE else f"{name}.{namespace}"


def foreign_manifests(name: str, where: str, namespace: str, rights: Iterable[Right]) -> list[Object]:
    """Return rights of a namespace's operator in another namespace, which has objects of others."""
    account = rbac_objects.account(NAME, namespace)
    return [
        rbac_objects.role("Role", name, where, _rules(rights)),
        rbac_objects.binding("RoleBinding", _own(name, namespace), where, name, account),
    ]


def extra_manifests(name: str, namespace: str, rights: Iterable[Right]) -> list[Object]:
    """Return rights in all namespaces that the operator has only where a person grants them."""
    account = rbac_objects.account(NAME, namespace)
    return [
        rbac_objects.role("ClusterRole", name, "", _rules(rights)),
        rbac_objects.binding("ClusterRoleBinding", _own(name, namespace), "", name, account),
    ]


def _allowed(right: Right) -> Right:
    """Return a right, unless it is about a kind of ours whose entry does not allow it."""
    for kind in kinds.KINDS:
        if kind.resource.qualified_name != right.resource.qualified_name:
            continue
        granted = {
            verb for one in kind.operator if one.subresource == right.subresource for verb in one.verbs
        }
        if excess := set(right.verbs) - granted - ({*READ} if not right.subresource else set()):
            raise IncompleteKind(
                f"cannot let the operator {', '.join(sorted(excess))} "
                f"{rbac_objects.address(right.resource, right.subresource)}: the kind does not allow it; "
                f"add it to operator in {kind.file}"
            )
    return right


def _rules(rights: Iterable[Right]) -> list[Object]:
    """Return the smallest number of equal rules, in the order in which they were first asked for."""
    verbs: dict[tuple[str, str, tuple[str, ...]], set[str]] = {}
    for right in rights:
        where = right.resource.group, rbac_objects.address(right.resource, right.subresource), right.names
        verbs.setdefault(where, set()).update(right.verbs)
    alike: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (group, address, names), needed in verbs.items():
        alike.setdefault((group, tuple(sorted(needed, key=_ORDER.index)), names), []).append(address)
    return [
        rbac_objects.rule([group], addresses, needed, names)
        for (group, needed, names), addresses in alike.items()
    ]
