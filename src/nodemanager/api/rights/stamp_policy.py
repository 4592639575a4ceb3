"""The admission policies that record who asks for something, and prevent forged records.

The mutating one stamps the user and their groups onto every object of a kind that people write, when its
intent changes: spec, labels, and the annotations by which people order something. All else leaves the stamp
alone: applying the same twice changes nothing, and what the operator and hosts note hides nobody.
Where a server has no mutating policies, the validating one still keeps stamps honest.
"""

from __future__ import annotations

from typing import Final

from nodemanager.api import kinds
from nodemanager.api.audit.actors import (
    CHANGE,
    CLAIMED_AUTHOR,
    CUT,
    MAX_CLAIM,
    MAX_GROUP,
    MAX_GROUPS,
    MAX_USER,
    REQUESTED_BY,
)
from nodemanager.api.common.audit_chain import CHAIN_ACCEPTED
from nodemanager.api.common.configsetrevision import RESTART
from nodemanager.api.common.managednode import (
    ANNOTATION_HOLD,
    ANNOTATION_REBOOT,
    MANAGED_NODES,
    TAKE_BACK,
)
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_ABORT, ANNOTATION_RETRY
from nodemanager.api.rights import admission_policy
from nodemanager.api.rights.admission_policy import Object
from nodemanager.api.rights.host_bounds import VARIABLES, unchanged
from nodemanager.api.rights.host_rights import OPERATOR, PREFIX

POLICY: Final = "nodemanager-stamps"
STAMPING: Final = "nodemanager-stamping"
ORDERS: Final = (
    CHANGE, CLAIMED_AUTHOR, RESTART, ANNOTATION_HOLD, ANNOTATION_REBOOT, TAKE_BACK, ANNOTATION_RETRY,
    ANNOTATION_ABORT, CHAIN_ACCEPTED,
)  # fmt: skip
"""Annotations by which people order something, or say where it came from."""

_AT: Final = f"'{REQUESTED_BY}'"
_PATH: Final = f"/metadata/annotations/{REQUESTED_BY.replace('/', '~1')}"
_ACCOUNT: Final = f"'system:serviceaccount:' + request.namespace + ':{PREFIX}"


def _quoted(text: str, most: int) -> str:
    """Return an expression: a text as a string of JSON, cut where it is too long."""
    cut = f"({text}.size() > {most} ? {text}.substring(0, {most}) + '{CUT}' : {text})"
    return rf"""'"' + {cut}.replace('\\', '\\\\').replace('"', '\\"') + '"'"""


_SAME_NOTES: Final = (
    f"{list(ORDERS)}.all(key, (key in variables.notes) == (key in variables.noted) &&"
    " (!(key in variables.notes) || variables.notes[key] == variables.noted[key]))"
)
_FIRST: Final = (
    f"{list(range(MAX_GROUPS))}.filter(index, index < variables.groups.size())"
    f".map(index, {_quoted('variables.groups[index]', MAX_GROUP)}).join(',')"
)
_VARIABLES: Final = {
    **{name: VARIABLES[name] for name in ("noted", "notes")},
    "was": f"{_AT} in variables.noted ? variables.noted[{_AT}] : ''",
    "now": f"{_AT} in variables.notes ? variables.notes[{_AT}] : ''",
    "respecified": f"oldObject == null || !({unchanged('spec')})",
    # The operator takes orders off that it followed. A host keeps labels of its own on its ManagedNode; an
    # order that it gives itself is its own, or it would count as an order of an earlier requester.
    "operator": f"request.userInfo.username == {_ACCOUNT}{OPERATOR}'",
    "host": (
        f"request.resource.resource == '{MANAGED_NODES.plural}' && oldObject != null &&"
        f" request.userInfo.username == {_ACCOUNT}' + oldObject.metadata.name"
    ),
    "asked": (
        "variables.respecified || !variables.operator &&"
        f" (!({_SAME_NOTES}) || !variables.host && !({unchanged('metadata.labels')}))"
    ),
    "generation": "oldObject == null ? 1 : oldObject.metadata.generation + (variables.respecified ? 1 : 0)",
    "groups": "has(request.userInfo.groups) ? request.userInfo.groups : []",
    "user": (
        f"""'{{"user":' + {_quoted("request.userInfo.username", MAX_USER)} + ',"groups":[' + {_FIRST}"""
        """ + '],"of":' + string(variables.groups.size()) + ',"generation":' +"""
        """ string(variables.generation) + '}'"""
    ),
    "stamp": "variables.asked ? variables.user : variables.was",
}
_MUTATION: Final = (
    "variables.stamp != variables.now ? (variables.stamp == '' ?"
    f" [JSONPatch{{op: 'remove', path: '{_PATH}'}}] : has(object.metadata.annotations) ?"
    f" [JSONPatch{{op: 'add', path: '{_PATH}', value: variables.stamp}}] :"
    f" [JSONPatch{{op: 'add', path: '/metadata/annotations', value: {{{_AT}: variables.stamp}}}}]) : []"
)
_HONEST: Final = (
    "variables.now == '' || variables.now == variables.was ||"
    " variables.asked && variables.now == variables.user"
)
_CLAIMED: Final = f"variables.notes['{CLAIMED_AUTHOR}']"
_SHORT_CLAIM: Final = (
    f"!('{CLAIMED_AUTHOR}' in variables.notes) || ({_CLAIMED}.size() <= {MAX_CLAIM} &&"
    rf" !{_CLAIMED}.matches('[\\x00-\\x1f\\x7f]')) ||"
    f" ('{CLAIMED_AUTHOR}' in variables.noted && variables.noted['{CLAIMED_AUTHOR}'] == {_CLAIMED})"
)


def policies() -> list[Object]:
    """Return the policy that keeps stamps honest, and its binding."""
    remedy = f"leave the annotation {REQUESTED_BY} out: the server writes it where it can"
    return admission_policy.policy(
        POLICY,
        _rules(),
        [
            admission_policy.validation(
                _HONEST,
                f"nobody says that somebody else asked for this; {remedy}",
                f"request.userInfo.username + ' may not say who asked for this: {remedy}'",
            ),
            admission_policy.validation(
                _SHORT_CLAIM,
                f"the annotation {CLAIMED_AUTHOR} may have {MAX_CLAIM} characters, and no line breaks",
            ),
        ],
        variables=_VARIABLES,
    )


def stamping() -> list[Object]:
    """Return the policy that stamps, and its binding, for servers that have mutating policies."""
    return admission_policy.mutating_policy(STAMPING, _rules(), _MUTATION, _VARIABLES)


def _rules() -> list[Object]:
    """Return what is stamped: every kind that people write. A deletion leaves nothing to be stamped."""
    found: dict[str, list[str]] = {}
    for kind in kinds.BY_NAME:
        if kind.editors:
            found.setdefault(kind.resource.group, []).append(kind.resource.plural)
    return [
        admission_policy.matched(group, plurals, ["CREATE", "UPDATE"]) for group, plurals in found.items()
    ]
