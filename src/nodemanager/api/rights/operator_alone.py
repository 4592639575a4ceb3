"""An admission policy for a kind whose objects only the operator makes, and nobody changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nodemanager.api.rights import admission_policy
from nodemanager.api.rights.admission_policy import Object
from nodemanager.api.rights.host_bounds import CREATE, DELETE, LIFE, unchanged
from nodemanager.api.rights.operator_rights import NAME
from nodemanager.kube.objects import Resource

_CLEANERS: Final = (
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:kube-controller-manager",
    "system:apiserver",
)
"""The programs that remove objects without an owner, in Kubernetes and in the embedded API."""
_IS_NOT_OPERATOR: Final = (
    f"request.userInfo.username != 'system:serviceaccount:' + request.namespace + ':{NAME}'"  # its namespace
)
_IS_NO_CLEANER: Final = f"{CREATE} || !(request.userInfo.username in {list(_CLEANERS)})"
_HOLDS: Final = {
    "create": f"!({CREATE})",
    "delete": f"!({DELETE})",
    # A write that changes nothing is none: storage is migrated so.
    "change": f"request.operation != 'UPDATE' ||"
    f" ({unchanged('spec', 'metadata.labels', 'metadata.annotations', *LIFE)})",
}


def policies(name: str, resource: Resource[Any], remedies: Mapping[str, str]) -> list[Object]:
    """Return a policy and its binding; remedies say what else to do, for create, delete and change."""
    kinds = f"{resource.kind}s"
    return admission_policy.policy(
        name,
        [admission_policy.matched(resource.group, [resource.plural])],
        [
            admission_policy.validation(
                _HOLDS[verb],
                f"only the operator may {verb} {kinds}; {remedy}",
                f"request.userInfo.username + ' may not {verb} {kinds}: only the operator of their"
                f" namespace may; {remedy}'",
            )
            for verb, remedy in remedies.items()
        ],
        conditions={"is-not-the-operator": _IS_NOT_OPERATOR, "is-not-cleaning-up": _IS_NO_CLEANER},
    )
