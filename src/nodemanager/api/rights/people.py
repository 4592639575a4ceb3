"""Roles for people, to be bound in a namespace: for viewers of our kinds, and for authors of declarations.

They are no part of Kubernetes' own `view` and `edit`: who writes a ConfigSet is root on the hosts it matches.
"""

from __future__ import annotations

from typing import Final

from nodemanager.api import kinds
from nodemanager.api.rights import operator_rights, rbac_objects
from nodemanager.api.rights.rbac_objects import Object
from nodemanager.kube.core import LEASES

VIEWER: Final = "nodemanager-viewer"
EDITOR: Final = "nodemanager-editor"


def roles() -> list[Object]:
    """Return both roles."""
    looking = [rule for kind in kinds.BY_NAME for rule in rbac_objects.grants(kind.resource, kind.viewers)]
    # Whether an operator is there: without one, nobody says which hosts are alive.
    looking.append(rbac_objects.rule([LEASES.group], [LEASES.plural], ["get"], [operator_rights.NAME]))
    writing = [rule for kind in kinds.BY_NAME for rule in rbac_objects.grants(kind.resource, kind.editors)]
    return [
        rbac_objects.role("ClusterRole", VIEWER, "", looking),
        rbac_objects.role("ClusterRole", EDITOR, "", [*looking, *writing]),
    ]
