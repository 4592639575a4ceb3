"""Whether a change of a ConfigSet needs an approval, and what the approval has to name. Pure."""

from __future__ import annotations

import hashlib

from nodemanager.api.common.configsetrevision import ConfigSetRevisionSpec
from nodemanager.api.common.rollout import Rollout
from nodemanager.api.maintenance.maintenanceapproval import MaintenanceApprovalSpec


def is_needed(rollout: Rollout) -> bool:
    """Tell whether an approval is needed."""
    return rollout.approval is not None and rollout.approval.required


def requesters(rollout: Rollout, revision: ConfigSetRevisionSpec) -> list[str]:
    """Return who may not approve: the person who asked for the content, and the last one to change the set.

    A person who changes another part of the set does not replace the one who asked for its content.
    """
    asked = rollout.approval
    if asked is None or not asked.different_user:
        return []
    return [one for one in (revision.requester, asked.requester) if one]


def hash_of(rollout: Rollout, revision: ConfigSetRevisionSpec) -> str:
    """Return what an approval has to name: the content and, where that counts, who asked for it.

    So nobody's approval of their own request becomes valid because another person changes the set.
    """
    if rollout.approval is None or not rollout.approval.different_user:
        return revision.digest
    first = next(iter(requesters(rollout, revision)), "")
    return hashlib.sha256(f"{revision.digest}/{first}".encode()).hexdigest()


def approves(said: MaintenanceApprovalSpec, rollout: Rollout, revision: ConfigSetRevisionSpec) -> bool:
    """Tell whether an approval is for this change, and by a person who may approve it."""
    asked = rollout.approval
    unknown = asked is not None and asked.different_user and not asked.requester
    if unknown or said.approver in requesters(rollout, revision):
        return False
    return said.config_set == revision.config_set and said.plan_hash == hash_of(rollout, revision)
