"""The admission policy that keeps the operator to what RBAC cannot say: which part of an object it changes.

It writes on hosts who works on them, on tasks why they do not count as done, and on maintenances that they
must not go before hosts are given back; on ConfigSets that prune, that hosts have yet to do so.
It must not change what people decide, in `spec` and labels: an attacker who takes it over cannot, either.
"""

from __future__ import annotations

from typing import Final

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.configset import FINALIZER as PRUNES
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.nodemaintenance import (
    ANNOTATION_PREVIEW,
    ANNOTATION_RETRY,
    ANNOTATION_TOKEN,
    ANNOTATION_VISIT,
    FINALIZER,
    NODE_MAINTENANCES,
)
from nodemanager.api.maintenance.nodetask import NODE_TASKS, NOT_DONE, UPGRADES
from nodemanager.api.rights import admission_policy
from nodemanager.api.rights.admission_policy import Object
from nodemanager.api.rights.host_bounds import VARIABLES, Check, only_noted, unchanged
from nodemanager.api.rights.operator_rights import NAME

POLICY: Final = NAME
_IS_OPERATOR: Final = f"request.userInfo.username == 'system:serviceaccount:' + request.namespace + ':{NAME}'"
_FINALIZERS: Final = "(has({0}.metadata.finalizers) ? {0}.metadata.finalizers.filter(one, one != '{1}') : [])"
_DECIDED: Final = ("spec", "metadata.labels", "metadata.annotations", "metadata.ownerReferences")
_OWNED: Final = (
    "({0} == null || (has({0}.metadata.ownerReferences) &&"
    " {0}.metadata.ownerReferences.exists(one, one.kind == '" + NODE_MAINTENANCES.kind + "')))"
)


def _same_finalizers(but: str) -> str:
    """Return an expression: of finalizers, none but this one is other than it was."""
    return f"{_FINALIZERS.format('object', but)} == {_FINALIZERS.format('oldObject', but)}"


def policies() -> list[Object]:
    """Return the policy and its binding."""
    matched = admission_policy.matched
    changed = [
        matched(MANAGED_NODES.group, [MANAGED_NODES.plural], ["UPDATE"]),
        matched(NODE_TASKS.group, [NODE_TASKS.plural], ["UPDATE"]),
        matched(NODE_MAINTENANCES.group, [NODE_MAINTENANCES.plural], ["UPDATE", "DELETE"]),
    ]
    return admission_policy.policy(
        POLICY,
        [*changed, matched(CONFIG_SETS.group, [CONFIG_SETS.plural])],
        [admission_policy.validation(one.expression, one.message) for one in _CHECKS],
        conditions={"is-the-operator": _IS_OPERATOR},
        variables={
            "kind": "request.resource.resource",
            **{name: VARIABLES[name] for name in ("noted", "notes")},
        },
    )


_CHECKS: Final = (
    Check(
        MANAGED_NODES.plural,
        f"{unchanged('spec', 'metadata.labels', 'metadata.finalizers', 'metadata.ownerReferences')} &&"
        f" {only_noted(ANNOTATION_VISIT, ANNOTATION_TOKEN, UPGRADES)}",
        f"the operator may change nothing of a ManagedNode but its annotations {ANNOTATION_VISIT},"
        f" {ANNOTATION_TOKEN} and {UPGRADES}",
    ),
    Check(
        NODE_MAINTENANCES.plural,
        "request.operation != 'DELETE' || has(oldObject.spec.ttlSecondsAfterFinished)",
        "the operator may delete no NodeMaintenance that does not say so itself, by ttlSecondsAfterFinished",
    ),
    Check(
        NODE_MAINTENANCES.plural,
        "request.operation == 'DELETE' ||"
        f" {unchanged('spec', 'metadata.labels', 'metadata.ownerReferences')} &&"
        f" {only_noted(ANNOTATION_RETRY, ANNOTATION_PREVIEW)} &&"
        f" {_same_finalizers(FINALIZER)}",
        f"the operator may change nothing of a NodeMaintenance but its finalizer {FINALIZER} and the"
        f" annotations {ANNOTATION_RETRY} and {ANNOTATION_PREVIEW}",
    ),
    Check(
        NODE_TASKS.plural,
        f"{unchanged('metadata.labels', 'metadata.finalizers', 'metadata.ownerReferences')} &&"
        f" {only_noted(NOT_DONE)}",
        f"the operator may change nothing of a NodeTask but its annotation {NOT_DONE}",
    ),
    Check(
        CONFIG_SETS.plural,
        f"{_OWNED.format('object')} && {_OWNED.format('oldObject')} ||"
        f" request.operation == 'UPDATE' && {unchanged(*_DECIDED)} && {_same_finalizers(PRUNES)}",
        "the operator may only write the ConfigSets that it makes of NodeMaintenances, and of others nothing"
        f" but the finalizer {PRUNES}",
    ),
)
