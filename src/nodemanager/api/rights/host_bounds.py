"""Limits for what a host may write: the part of the policy about sizes and times.

RBAC gives a host the right to create; without bounds it could fill the store of the API, and write
Events that look like those of others. What an agent writes is well within all of these.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from nodemanager.api.rights.host_rights import MAX_EVENT_HOST, OPERATOR, PREFIX
from nodemanager.kube.core import MAX_EVENT_MESSAGE

MAX_WORD: Final = 128
"""Characters of reason and action, as there."""
MAX_TOKEN_SECONDS: Final = 8760 * 3600
"""A year: what `nodemanager bootstrap` asks for by default."""
AUDIENCES: Final = "nodemanager.io/token-audiences"
"""Annotation of a namespace: other audiences, by comma, that tokens of its hosts may be for."""
INSTANCE: Final = "nodemanager.io/instance"
"""Annotation of a host's Lease: which process renewed it last."""
CORDONED: Final = "upgrade.nodemanager/cordoned-by"
"""Annotation of a Node: which host keeps it cordoned, and may end that."""
_MAX_NAME: Final = 253
_MAX_ID: Final = 64
_MAX_NOTES: Final = 64
_MAX_NOTE: Final = 4096
_MAX_INTERFACE: Final = 15
_API: Final = (
    "^(https://kubernetes[.]default([.]svc([.][-a-z0-9.]+)?)?|kubernetes[.](default[.]svc|svc[.]default)"
    "|kubernetes/serviceaccount|kubernetes|api|k3s|rke2|https://container[.]googleapis[.]com/.*"
    "|https://[-a-z0-9.]+[.]azmk8s[.]io(:443)?)$"
)
"""The audiences by which API servers are named, by Kubernetes itself and by its vendors. A policy cannot ask
which of them this server is: if a request names none, the server has put its own in before."""


class Check(NamedTuple):
    """What must hold of one kind of object, and what to say if it does not."""

    kind: str
    holds: str
    message: str

    @property
    def expression(self) -> str:
        """The condition in the words of the policy."""
        return f"variables.kind != '{self.kind}' || ({self.holds})"


DELETE: Final = "request.operation == 'DELETE'"
CREATE: Final = "request.operation == 'CREATE'"
LIFE: Final = ("metadata.finalizers", "metadata.ownerReferences")
_SAME = "has({0}) == has({1}) && (!has({0}) || {0} == {1})"
_NOTES = "{0} != null && has({0}.metadata.annotations) ? {0}.metadata.annotations : {{}}"
VARIABLES: Final = {
    "noted": _NOTES.format("oldObject"),
    "notes": _NOTES.format("object"),
    "audiences": (
        f"has(namespaceObject.metadata.annotations) && '{AUDIENCES}' in namespaceObject.metadata.annotations"
        f" ? namespaceObject.metadata.annotations['{AUDIENCES}'].split(',') : []"
    ),
}


def unchanged(*fields: str) -> str:
    """Return an expression: these fields are as they were, or still not there."""
    return " && ".join(f"({_SAME.format(f'object.{field}', f'oldObject.{field}')})" for field in fields)


def untouched(*fields: str) -> str:
    """Return an expression: a new object has none of these fields, an old one has them as it had."""
    return f"{CREATE} ? ({' && '.join(f'!has(object.{field})' for field in fields)}) : ({unchanged(*fields)})"


def only_noted(*keys: str) -> str:
    """Return an expression: of annotations, none but these is other than it was."""
    mine = f"key in {list(keys)}"
    return (
        f"variables.notes.all(key, {mine} || (key in variables.noted &&"
        f" variables.noted[key] == variables.notes[key])) &&"
        f" variables.noted.all(key, {mine} || key in variables.notes)"
    )


def _text(path: str) -> str:
    """Return an expression: a text of the object, empty where it is not there."""
    parent, _, _ = path.rpartition(".")
    there = f"has(object.{parent}) && has(object.{path})" if parent else f"has(object.{path})"
    return f"({there} ? object.{path} : '')"


def _within(limit: int, *paths: str) -> str:
    return " && ".join(f"{_text(path)}.size() <= {limit}" for path in paths)


_OWN_EVENT = "{0}.involvedObject.kind == 'ManagedNode' && {0}.involvedObject.name == variables.host"
_OWN_EVENT_NAME = (
    f"object.metadata.name.size() <= {_MAX_NAME} && "
    "object.metadata.name.matches('^[-a-z0-9.]*[.][-a-z0-9]+$') && "
    "object.metadata.name.substring(0, object.metadata.name.lastIndexOf('.')) in "
    f"(variables.host.size() > {MAX_EVENT_HOST} ?"
    f" [variables.host, variables.host.substring(0, {MAX_EVENT_HOST})] : [variables.host])"
)
_SHORT_EVENT = " && ".join(
    (
        f"bytes({_text('message')}).size() <= {MAX_EVENT_MESSAGE}",
        _within(MAX_WORD, "reason", "action"),
        _within(_MAX_NAME, "source.component", "reportingComponent"),
        _within(_MAX_ID, "involvedObject.uid", "involvedObject.resourceVersion"),
        f"{_text('involvedObject.fieldPath')} == ''",
        f"{_text('type')} in ['', 'Normal', 'Warning']",
    )
)
_OWN_SOURCE = " && ".join(
    (
        *(f"{_text(field)} in ['', variables.host]" for field in ("source.host", "reportingInstance")),
        *(f"{_text(field)} != '{PREFIX}{OPERATOR}'" for field in ("source.component", "reportingComponent")),
    )
)
_OWN_GROUP = f"{_text('involvedObject.apiVersion')}.startsWith('common.nodemanager/')"
_MAY_READ = (
    "authorizer.group('').resource('secrets').namespace(request.namespace)"
    ".name(object.metadata.name).check('get').allowed()"
)
LITTLE_DATA: Final = (
    "!has(object.immutable) && (!has(object.data) || (object.data.size() <= 8 &&"
    " object.data.all(key, object.data[key].size() <= 1024)))"
)
_FOR_THE_API = (
    "!has(object.spec.audiences) || object.spec.audiences == null ||"
    f" object.spec.audiences.all(one, one.matches('{_API}') || one in variables.audiences)"
)
_NOT_FOR_LONG = (
    "!has(object.spec.expirationSeconds) || object.spec.expirationSeconds == null ||"
    f" object.spec.expirationSeconds <= {MAX_TOKEN_SECONDS}"
)

CHECKS: Final = (
    Check("events", f"!({DELETE})", "a host may not delete Events"),
    Check(
        "events",
        f"{DELETE} || ({_OWN_EVENT.format('object')} && {_OWN_GROUP} && (oldObject == null ||"
        f" {_OWN_EVENT.format('oldObject')}))",
        "a host may only record Events about its own ManagedNode",
    ),
    Check(
        "events",  # a host with the name of another's Event would keep that Event from being recorded
        f"!({CREATE}) || ({_OWN_EVENT_NAME})",
        "a host may only record Events that are named after it: HOST.SOMETHING, of letters, digits and '-'",
    ),
    Check(
        "events",
        f"{DELETE} || ({_OWN_SOURCE})",
        "a host may only record Events in its own name: source.host and reportingInstance are its own, and"
        " the component is not the operator",
    ),
    Check(
        "events",
        f"{DELETE} || ({_SHORT_EVENT})",
        f"a host may only record short Events: {MAX_EVENT_MESSAGE} bytes of message, {MAX_WORD} characters of"
        " reason and action, of type Normal or Warning, without a fieldPath",
    ),
    Check(
        "events",
        f"{DELETE} || ({untouched(*LIFE, 'metadata.labels', 'metadata.annotations', 'related', 'series')})",
        "a host may only record Events without labels, annotations, finalizers, owners, related and series",
    ),
    Check(
        "leases",
        f"{DELETE} || (variables.old == variables.new && {only_noted(INSTANCE)} &&"
        f" (!('{INSTANCE}' in variables.notes) || variables.notes['{INSTANCE}'].size() <= {_MAX_ID}))",
        f"a host may not change labels and annotations of Leases, but for {INSTANCE}",
    ),
    Check(
        "managednodes",
        f"{DELETE} || (variables.notes.all(key, variables.notes[key].size() <= {_MAX_NOTE} || (key in"
        f" variables.noted && variables.noted[key] == variables.notes[key])) &&"
        f" (variables.notes.size() <= {_MAX_NOTES} || variables.notes.size() <= variables.noted.size()))",
        f"a host may have {_MAX_NOTES} annotations at most, and write {_MAX_NOTE} characters into each",
    ),
    Check(
        "secrets",  # of all interfaces that can be named there would be no end
        f"!({CREATE}) || (object.metadata.name.size() <= variables.host.size() + {4 + _MAX_INTERFACE} &&"
        f" {_MAY_READ})",
        "a host may only create the Secret of a WireGuard key that its ManagedNode asks for",
    ),
    Check("serviceaccounts", _NOT_FOR_LONG, "a host may not get a token for more than a year (8760h)"),
    Check(
        "serviceaccounts",
        _FOR_THE_API,
        "a host may only get tokens for the API itself; if it goes by another name here, an administrator may"
        f" write that into the annotation {AUDIENCES} of the namespace",
    ),
)
