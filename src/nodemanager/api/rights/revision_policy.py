"""The admission policy that leaves ConfigSetRevisions to the operator.

Hosts apply the content of a revision as root. A user who could make one, or remove the one that hosts should
return to, would decide about hosts past the brakes of a rollout.
"""

from __future__ import annotations

from typing import Final

from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS
from nodemanager.api.rights import operator_alone
from nodemanager.api.rights.admission_policy import Object
from nodemanager.api.rights.operator_rights import NAME

POLICY: Final = "nodemanager-revisions"


def policies() -> list[Object]:
    """Return the policy and its binding."""
    remedies = {
        "create": f"change the ConfigSet, and it makes one of that, under the account {NAME}",
        "delete": (
            "it removes those that are not needed; where no operator runs any more, delete the"
            f" ValidatingAdmissionPolicyBinding {POLICY} first"
        ),
        "change": "it is what was said at one time, and not even labels and annotations are for others",
    }
    return operator_alone.policies(POLICY, CONFIG_SET_REVISIONS, remedies)
