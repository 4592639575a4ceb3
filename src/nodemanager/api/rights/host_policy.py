"""The admission policy that keeps every host to its own objects, as plain objects ready to be applied.

Rights decide what a host is, not the name alone: an account named nodemanager-HOST that may write
the ManagedNode HOST of its namespace, or get its own token, and may not do what makes it mightier than
any host. See docs/adr/0009-who-is-a-host.md.
"""

from __future__ import annotations

from typing import Final

from nodemanager.api.audit.actors import CLAIMS
from nodemanager.api.audit.auditcheckpoint import KEY_SECRET
from nodemanager.api.common import configset
from nodemanager.api.common.audit_chain import CHAIN_ACCEPTED
from nodemanager.api.common.node_conditions import ALIVE
from nodemanager.api.maintenance.nodetask import NODE_TASKS
from nodemanager.api.rights import admission_policy, task_policy
from nodemanager.api.rights.admission_policy import Object
from nodemanager.api.rights.host_bounds import (
    CHECKS,
    CORDONED,
    CREATE,
    DELETE,
    LIFE,
    LITTLE_DATA,
    VARIABLES,
    Check,
    only_noted,
    unchanged,
    untouched,
)
from nodemanager.api.rights.host_rights import (
    DAEMONSET,
    HOSTNAME_LABEL,
    LABELS,
    MAX_LABELS,
    OPERATOR,
    OWN_LABELS,
    POLICY,
    PREFIX,
    SET,
)
from nodemanager.kube.rbac.identity import NODE_NAME

_ACCOUNT: Final = "system:serviceaccount:"


def policies() -> list[Object]:
    """Return the policy and its binding."""
    matched = admission_policy.matched
    return admission_policy.policy(
        POLICY,
        [
            matched(configset.GROUP, ["managednodes", "managednodes/status"]),
            matched(NODE_TASKS.group, [NODE_TASKS.plural, f"{NODE_TASKS.plural}/status"]),
            matched("coordination.k8s.io", ["leases"]),
            matched("", ["secrets", "events", "serviceaccounts/token", "nodes"]),
            matched("rbac.authorization.k8s.io", ["roles", "rolebindings"]),
        ],
        [
            admission_policy.validation(one, said)
            for one, said in (_AT_HOME, *((each.expression, each.message) for each in _ALL))
        ],
        conditions={
            "is-a-host": _IS_HOST,
            "is-not-above-hosts": _IS_NOT_ABOVE,
            "is-not-the-audit-key": _IS_NOT_AUDIT_KEY,
        },
        variables=_VARIABLES,
    )


_NAMESPACE = "request.userInfo.username.split(':')[2]"
_NAME_OF_ACCOUNT = "request.userInfo.username.split(':')[3]"
_HOST = f"{_NAME_OF_ACCOUNT}.substring({len(PREFIX)})"
_IS_NAMED_SO = (
    f"request.userInfo.username.startsWith('{_ACCOUNT}') && "
    "request.userInfo.username.split(':').size() == 4 && "
    f"{_NAME_OF_ACCOUNT}.startsWith('{PREFIX}')"
)
_OURS_HERE = f"authorizer.group('{configset.GROUP}').resource('{{0}}').namespace({_NAMESPACE})"
_TOKENS_HERE = (
    f"authorizer.group('').resource('serviceaccounts').subresource('token').namespace({_NAMESPACE})"
)
_OF_OPERATOR = "['secrets', 'roles', 'rolebindings']"
_IS_HOST = (
    f"{_IS_NAMED_SO} && ("
    f"{_NAME_OF_ACCOUNT} == '{PREFIX}{DAEMONSET}' && request.resource.resource == 'serviceaccounts' && "
    f"request.name.startsWith('{PREFIX}') || "
    f"{_OURS_HERE.format('managednodes')}.name({_HOST}).check('update').allowed() || "
    f"({_NAME_OF_ACCOUNT} == '{PREFIX}{OPERATOR}' && request.resource.resource in {_OF_OPERATOR} ? "
    f"{_OURS_HERE.format('configsets')}.subresource('status').check('patch').allowed() : "
    f"{_TOKENS_HERE}.name({_NAME_OF_ACCOUNT}).check('create').allowed()))"
)
"""The operator may create Secrets only so that it can let hosts, and is held like one there. Of Roles it
may write those of references: it could take rights off itself otherwise, and not be meant here any more."""
# An account that may declare for all hosts of the namespace, or become any of them, gains nothing from what a
# host
# must not do. Two questions to the authorizer are what one expression may cost: hence two conditions.
_IS_NOT_ABOVE = (
    f"!({_IS_NAMED_SO}) || {_NAME_OF_ACCOUNT} == '{PREFIX}{DAEMONSET}' || "
    f"({_NAME_OF_ACCOUNT} == '{PREFIX}{OPERATOR}' && request.resource.resource in {_OF_OPERATOR}) || "
    f"!({_OURS_HERE.format('configsets')}.check('create').allowed() || "
    f"{_TOKENS_HERE}.check('create').allowed())"
)
# By its type and annotations a Secret is filled with what is not the operator's: this one stays plain.
_IS_NOT_AUDIT_KEY = (
    f"!({_IS_NAMED_SO} && {_NAME_OF_ACCOUNT} == '{PREFIX}{OPERATOR}' &&"
    f" request.namespace == {_NAMESPACE} && request.resource.resource == 'secrets' &&"
    f" object != null && object.metadata.name == '{KEY_SECRET}' &&"
    " has(object.type) && object.type == 'Opaque')"
)
_NODE = (
    f"has(request.userInfo.extra) && '{NODE_NAME}' in request.userInfo.extra ?"
    f" request.userInfo.extra['{NODE_NAME}'][0] : ''"
)
_LABELS = "{0} != null && has({0}.metadata.labels) ? {0}.metadata.labels : {{}}"
_VARIABLES = {
    "host": _HOST,
    "home": _NAMESPACE,
    "node": _NODE,
    "kind": "request.resource.resource",
    "old": _LABELS.format("oldObject"),
    "new": _LABELS.format("object"),
    "allowed": "[" + ", ".join(f"'{label}'" for label in OWN_LABELS) + "]",
    "labelled": (
        "variables.new.filter(key, !(key in variables.allowed) && !(key in variables.old &&"
        " variables.old[key] == variables.new[key])).map(key, key + '=' + variables.new[key])"
    ),
    **VARIABLES,
}
_SAME_SPEC = "has(object.spec) == has(oldObject.spec) && (!has(object.spec) || object.spec == oldObject.spec)"
_FEW_LABELS = (
    f"variables.labelled.size() <= {MAX_LABELS} && "
    "variables.old.all(key, key in variables.new || key in variables.allowed)"
)
_MAY_SET = (
    f"authorizer.group('{configset.GROUP}').resource('{LABELS}').namespace(request.namespace)"
    f".name(variables.labelled[{{0}}]).check('{SET}').allowed()"
)
_LABELS_ALLOWED = (
    _FEW_LABELS,
    # Two by two: two questions to the authorizer are what one expression may cost.
    *(
        f"variables.labelled.size() <= {first} || ({_MAY_SET.format(first)} &&"
        f" (variables.labelled.size() <= {first + 1} || {_MAY_SET.format(first + 1)}))"
        for first in range(0, MAX_LABELS, 2)
    ),
)
_OWN_KEY = (
    "object.metadata.name.startsWith('wg-') && object.metadata.name.endsWith('-' + variables.host) && "
    "object.metadata.name.size() > variables.host.size() + 4 && "
    "!object.metadata.name.substring(3, object.metadata.name.size() - variables.host.size() - 1)"
    ".contains('-')"
)
_MAY_UPDATE = (
    "authorizer.group('coordination.k8s.io').resource('leases').namespace(request.namespace)"
    ".name(object.metadata.name).check('update').allowed()"
)
_SAME_LIFE = untouched(*LIFE)
_ONLY_CORDONED = f"variables.old == variables.new && {only_noted(CORDONED)} && " + unchanged(
    *LIFE, "spec.taints", "spec.podCIDR", "spec.podCIDRs", "spec.providerID"
)
_PLAIN_SECRET = f"(!has(object.type) || object.type == 'Opaque') && {LITTLE_DATA} && " + " && ".join(
    f"!has(object.{field})" for field in ("metadata.labels", "metadata.annotations", *LIFE)
)
_NAME = "(request.name != '' ? request.name : object.metadata.name)"


_AT_HOME = (
    f"variables.kind == 'nodes' || variables.host == '{DAEMONSET}' || request.namespace == variables.home",
    "a host may write in its own namespace only",
)

_IS_NO_OPERATOR = f"variables.host != '{OPERATOR}' || {DELETE}"
_OF_REFERENCES = f"{_NAME}.startsWith('{PREFIX}') && {_NAME}.endsWith('-references')"
_BINDS_ITS_HOST = (
    f"object.roleRef.kind == 'Role' && object.roleRef.name == {_NAME} && "
    "(!has(object.subjects) || object.subjects.all(one, one.kind == 'ServiceAccount' && "
    f"has(one.namespace) && one.namespace == variables.home && one.name + '-references' == {_NAME}))"
)


_JUDGED = (
    "({0} != null && has({0}.status) && has({0}.status.conditions) ?"
    " {0}.status.conditions.filter(one, one.type == '" + ALIVE + "') : []) == "
)
_SAME_LIFE_SIGNS = _JUDGED.format("object") + _JUDGED.format("oldObject").removesuffix(" == ")


_CHECKS = (
    Check(
        "managednodes",  # a dead host cannot write this, and a living one must not write a time without end
        f"{DELETE} || {CREATE} || ({_SAME_LIFE_SIGNS})",
        f"a host may not judge whether it is alive: the condition {ALIVE} is for the operator",
    ),
    Check(
        "managednodes",  # a finalizer would have its rights outlive its removal; an owner would remove it
        f"{DELETE} || ({_SAME_LIFE})",
        "a host may not say how long its ManagedNode stays: finalizers and owners are for others",
    ),
    Check("managednodes", f"!({DELETE})", "a host may not delete ManagedNodes"),
    Check(
        "managednodes",
        f"{DELETE} || {_NAME} == variables.host",
        "a host may only write the ManagedNode of its own name",
    ),
    Check(
        "managednodes",
        f"{DELETE} || ({CREATE} ? (!has(object.spec) || object.spec == {{}}) : ({_SAME_SPEC}))",
        "a host may not change its spec: that is for people",
    ),
    *(
        Check(
            "managednodes",
            f"{DELETE} || ({allowed})",
            f"a host may only set these labels on itself: {', '.join(OWN_LABELS)}; and those that nodemanager"
            f" rbac --label declares for it, {MAX_LABELS} at a time; and remove none",
        )
        for allowed in _LABELS_ALLOWED
    ),
    Check(
        "managednodes",
        f"{DELETE} || !('{HOSTNAME_LABEL}' in variables.new) ||"
        f" variables.new['{HOSTNAME_LABEL}'] == variables.host",
        f"a host may not give itself the {HOSTNAME_LABEL} of another",
    ),
    Check(
        "managednodes",  # templates of others write them into their files; a schema cannot tell of keys
        f"{DELETE} || !has(object.status) || !has(object.status.interfaces) ||"
        " object.status.interfaces.all(name, name.matches('^[!-.0-~]+$'))",
        "a host may only tell of interfaces with names that interfaces can have",
    ),
    Check(
        "managednodes",  # what a person asked for would seem to be asked for by the host
        f"{DELETE} || {[*CLAIMS, CHAIN_ACCEPTED]}.all(key,"
        " (key in variables.notes) == (key in variables.noted) &&"
        " (!(key in variables.notes) || variables.notes[key] == variables.noted[key]))",
        f"a host may not say who asked for something: the annotations {', '.join(CLAIMS)} and"
        f" {CHAIN_ACCEPTED} are for others",
    ),
    Check("leases", f"!({DELETE})", "a host may not delete Leases"),
    Check(
        "leases",
        f"{DELETE} || !{_NAME}.startsWith('{PREFIX}') || {_NAME} == '{PREFIX}' + variables.host",
        "a host may only renew the Lease of its own name, and those of its lock groups",
    ),
    Check(
        "leases",
        f"{DELETE} || !has(object.spec) || !has(object.spec.holderIdentity) ||"
        " object.spec.holderIdentity in ['', variables.host]",
        "a host may hold a Lease in its own name only",
    ),
    Check(
        "leases",
        f"!({CREATE}) || ({_MAY_UPDATE})",
        "a host may only create the Lease of its own name, and those of its lock groups",
    ),
    Check(
        "leases",
        f"{DELETE} || ({_SAME_LIFE})",
        "a host may not say how long a Lease stays: finalizers and owners are for others",
    ),
    Check(
        "serviceaccounts",
        f"request.name == '{PREFIX}' + (variables.host == '{DAEMONSET}' ? variables.node : variables.host)",
        "a host may only get its own token, a pod of the DaemonSet that of the node which its token names",
    ),
    Check(
        "serviceaccounts",  # a token that is bound to a node shows that node to its readers
        "!has(object.spec.boundObjectRef) || object.spec.boundObjectRef == null",
        "a host may not bind a token to another object",
    ),
    Check(
        "roles",
        f"{_IS_NO_OPERATOR} || ({_OF_REFERENCES})",
        "the operator may only write Roles of references: nodemanager-HOST-references",
    ),
    Check(
        "rolebindings",
        f"{_IS_NO_OPERATOR} || ({_OF_REFERENCES} && {_BINDS_ITS_HOST})",
        "the operator may only bind a host to its Role of references: nodemanager-HOST-references",
    ),
    Check("secrets", CREATE, "a host may not change Secrets"),
    Check(
        "nodes",  # with labels and taints it could draw pods to itself that are meant for others
        f"request.operation == 'UPDATE' && {_ONLY_CORDONED}",
        "a host may only cordon its Node, and not change its labels, annotations, taints, finalizers and"
        " owners",
    ),
    Check(
        "secrets",
        f"!({CREATE}) || ({_OWN_KEY})",
        "a host may only create the Secret of its own WireGuard key: wg-INTERFACE-HOST",
    ),
    Check(
        "secrets",  # by their types and annotations controllers fill Secrets with what is not the host's
        f"!({CREATE}) || ({_PLAIN_SECRET})",
        "a host may only create a Secret of type Opaque, without labels, annotations, finalizers and owners,"
        " and with little in it",
    ),
)
_ALL = (*_CHECKS, *CHECKS, *task_policy.OF_HOSTS)
