"""What the operator may do in the API: what its controllers need, and not more than our kinds allow.

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


def manifests(namespace: str, rights: Iterable[Right]) -> list[Object]:
    """Return the operator's account and its rights, in one namespace as far as the kinds are in one."""
    needed = [_allowed(right) for right in rights]
    account = rbac_objects.account(NAME, namespace)
    found = [rbac_objects.namespace(namespace), account]
    if here := _rules(right for right in needed if right.resource.namespaced):
        found.append(rbac_objects.role("Role", NAME, namespace, here))
        found.append(rbac_objects.binding("RoleBinding", NAME, namespace, NAME, account))
    if nowhere := _rules(right for right in needed if not right.resource.namespaced):
        found.append(rbac_objects.role("ClusterRole", NAME, "", nowhere))
        found.append(rbac_objects.binding("ClusterRoleBinding", NAME, "", NAME, account))
    return found


def extra_manifests(name: str, namespace: str, rights: Iterable[Right]) -> list[Object]:
    """Return rights that the operator has only where somebody gives them, in all namespaces."""
    account = rbac_objects.account(NAME, namespace)
    return [
        rbac_objects.role("ClusterRole", name, "", _rules(rights)),
        rbac_objects.binding("ClusterRoleBinding", name, "", name, account),
    ]


def _allowed(right: Right) -> Right:
    """Return a right, if it is not about a kind of ours whose entry does not allow it."""
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
    """Return as few rules as say it, in the order in which somebody first asked."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for right in rights:
        where = right.resource.group, rbac_objects.address(right.resource, right.subresource)
        verbs.setdefault(where, set()).update(right.verbs)
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, address), needed in verbs.items():
        alike.setdefault((group, tuple(sorted(needed, key=_ORDER.index))), []).append(address)
    return [rbac_objects.rule([group], addresses, needed) for (group, needed), addresses in alike.items()]
