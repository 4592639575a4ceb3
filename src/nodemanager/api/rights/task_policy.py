"""The admission policy that leaves NodeTasks to the operator, and what it means for hosts.

A task makes a host do something, once, as root. So only the operator makes one, not even an
administrator by mistake: people declare what they want in objects that the operator decides about, and those
have windows, budgets and approvals. A host reports on its own tasks, within bounds.
"""

from __future__ import annotations

from typing import Final

from nodemanager.api.maintenance.maintenancewindow import GROUP
from nodemanager.api.maintenance.nodetask import NODE_TASKS
from nodemanager.api.rights import operator_alone
from nodemanager.api.rights.admission_policy import Object
from nodemanager.api.rights.host_bounds import Check
from nodemanager.api.rights.operator_rights import NAME

POLICY: Final = "nodemanager-tasks"
MAX_FACT_NAME: Final = 256
"""Characters of the name of a fact that a host tells as evidence. A schema bounds all else, but no keys."""
_PLURAL: Final = NODE_TASKS.plural


def policies() -> list[Object]:
    """Return the policy and its binding."""
    return operator_alone.policies(POLICY, NODE_TASKS, _VALIDATIONS)


_NO_OPERATOR = (
    "it removes them some time after they ended; where no operator runs any more, delete the"
    f" ValidatingAdmissionPolicyBinding {POLICY} first"
)
_VALIDATIONS: Final = {
    "create": f"declare what you want, and it makes tasks of that, under the account {NAME}",
    "delete": _NO_OPERATOR,
    "change": "not even labels and annotations are for others",
}

_HAS_STEPS = "has(object.status) && has(object.status.steps)"
_ENDED: Final = (
    "(has({0}.status) && has({0}.status.phase) &&"
    " !({0}.status.phase in ['', 'Pending', 'Running', 'Expired']))"
)
"""Not for Expired: the operator says so of a task that its host has taken, and could not tell yet."""
OF_HOSTS: Final = (
    Check(
        _PLURAL,
        "request.operation == 'UPDATE' && request.subResource == 'status'",
        "a host may neither create, change nor delete NodeTasks, only write the status of its own",
    ),
    Check(
        _PLURAL,
        "oldObject == null || oldObject.spec.nodeName == variables.host",
        "a host may only write the status of NodeTasks whose spec.nodeName is its own",
    ),
    Check(
        _PLURAL,  # while a task goes on, its host may read the Secrets of it
        f"object == null || oldObject == null || !{_ENDED.format('oldObject')} || {_ENDED.format('object')}",
        "a host may not have a NodeTask go on that has ended",
    ),
    Check(
        _PLURAL,
        f"object == null || !({_HAS_STEPS}) || object.status.steps.all(step,"
        f" !has(step.evidence) || step.evidence.all(name, name.size() <= {MAX_FACT_NAME}))",
        f"a host may tell facts about a step of a NodeTask with names of {MAX_FACT_NAME} characters at most",
    ),
    Check(
        "managednodes",  # the operator's claim on a host is there: a forged one would keep others waiting
        " && ".join(
            f"{new}.all(key, !key.startsWith('{GROUP}/') || (key in {old} && {old}[key] == {new}[key])) &&"
            f" {old}.all(key, !key.startsWith('{GROUP}/') || key in {new})"
            for old, new in (("variables.noted", "variables.notes"), ("variables.old", "variables.new"))
        ),
        f"a host may not write labels and annotations of {GROUP}: those are for the operator",
    ),
)
"""What holds for hosts besides."""
