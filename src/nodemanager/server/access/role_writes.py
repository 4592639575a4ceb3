"""Checks before a role or a binding is written, so that users cannot grant rights that they lack.

Kubernetes checks this before it validates the object. An update that changes nothing but what garbage
collection needs is allowed to everybody who may update: otherwise some roles could never be deleted.
"""

from __future__ import annotations

from typing import Any, Final

from nodemanager.kube import errors
from nodemanager.kube.rbac.escalation import FULL_AUTHORITY, NEEDS_ADMIN, escalation, may_escalate
from nodemanager.kube.rbac.identity import Attributes, User
from nodemanager.kube.rbac.roles import aggregation_selectors
from nodemanager.kube.rbac.rules import GROUP, Object, parse_rules
from nodemanager.server.access import access_errors
from nodemanager.server.access.authz import Authorizer

ALL_VERSIONS: Final = "*"
_PLURALS: Final = {"Role": "roles", "ClusterRole": "clusterroles"}


def check_role(
    authorizer: Authorizer,
    user: User,
    role: Object,
    *,
    namespace: str = "",
    url_name: str = "",
    old: Object | None = None,
) -> None:
    """Raise Forbidden when a user may not give a Role (or, without namespace, a ClusterRole) its rules.

    `url_name` is empty for a POST: a rule for certain names then does not permit to escalate.
    """
    if old is not None and _only_for_collection(role, old):
        return
    name = str(role["metadata"].get("name", ""))
    plural = "roles" if namespace else "clusterroles"
    verb = Attributes("escalate", GROUP, ALL_VERSIONS, plural, namespace=namespace, name=url_name)
    if may_escalate(user) or authorizer.decide(user, verb).allowed:
        return
    policy = authorizer.policy(namespace)
    why = escalation(user, parse_rules(role), policy, plural)
    aggregates = aggregation_selectors(role) or (old is not None and aggregation_selectors(old))
    if not why and not namespace and aggregates and escalation(user, FULL_AUTHORITY, policy, plural):
        why = NEEDS_ADMIN
    if why:
        raise access_errors.forbidden(GROUP, plural, name, why)


def check_binding(
    authorizer: Authorizer, user: User, binding: Object, *, namespace: str = "", old: Object | None = None
) -> None:
    """Raise when a user may not bind the role that a binding refers to."""
    if may_escalate(user) or (old is not None and _only_for_collection(binding, old)):
        return
    ref = binding["roleRef"]
    plural = "rolebindings" if namespace else "clusterrolebindings"
    if _may_bind(authorizer, user, ref, namespace):
        return
    policy = authorizer.policy(namespace)
    rules = policy.referred(ref, policy.local)
    if rules is None:
        # Kubernetes reports the missing role under the name of the binding's resource.
        raise access_errors.not_found(GROUP, plural, str(ref.get("name", "")))
    why = escalation(user, rules, policy, plural)
    if why:
        raise access_errors.forbidden(GROUP, plural, str(binding["metadata"].get("name", "")), why)


def _only_for_collection(new: Object, old: Object) -> bool:
    """Tell whether an update changes at most finalizers and owner references."""
    return _without_collection(new) == _without_collection(old)


def _without_collection(obj: Object) -> dict[str, Any]:
    ignored = {"finalizers", "ownerReferences", "managedFields"}
    metadata = {key: value for key, value in obj["metadata"].items() if key not in ignored and value}
    return {**{key: value for key, value in obj.items() if value}, "metadata": metadata}


def _may_bind(authorizer: Authorizer, user: User, ref: Object, namespace: str) -> bool:
    plural = _PLURALS.get(str(ref.get("kind", "")))
    if plural is None:
        raise errors.BadRequest(f"unsupported role reference kind: {ref.get('kind', '')!r}")
    group, name = str(ref.get("apiGroup", "")), str(ref.get("name", ""))
    asked = Attributes("bind", group, ALL_VERSIONS, plural, namespace=namespace, name=name)
    return authorizer.decide(user, asked).allowed
