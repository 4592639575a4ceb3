"""Admission policies, each with a request and what becomes of it: the same on both servers.

`<ns>` stands for the namespace, policy and binding of a case, `<run>` for what all names start with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Spec = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A policy (what is not said is a refusal of every ConfigMap) and one request."""

    name: str
    policy: Spec = field(default_factory=dict)
    binding: Spec = field(default_factory=dict)
    request: tuple[str, str, Any] = ("POST", "/api/v1/namespaces/<ns>/configmaps", {})
    code: int = 201
    says: str = ""
    """What follows "denied request: "; all of the message where it starts with an exclamation mark."""
    about: str = 'configmaps "x"'
    reason: str = "Invalid"
    warnings: tuple[str, ...] = ()
    before: tuple[tuple[str, Spec], ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    """Of the namespace."""
    headers: dict[str, str] = field(default_factory=dict)


MAPS = "/api/v1/namespaces/<ns>/configmaps"
THINGS = "/apis/policies.test/v1/namespaces/<ns>/things"
CRD: Spec = {
    "metadata": {"name": "things.policies.test"},
    "spec": {
        "group": "policies.test",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
        "versions": [
            {
                "name": version,
                "served": True,
                "storage": version == "v1",
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "default": 3},
                                    "most": {"type": "integer"},
                                },
                            },
                            "status": {"type": "object", "properties": {"ok": {"type": "boolean"}}},
                        },
                    }
                },
            }
            for version in ("v1", "v2")
        ],
    },
}


def a_map(name: str = "x", **more: Any) -> Spec:
    """Return a ConfigMap."""
    return {"metadata": {"name": name, "labels": {"app": "web"}}, "data": {"k": "v"}, **more}


def create(body: Spec | None = None) -> tuple[str, str, Any]:
    """Return the request that creates a ConfigMap."""
    return ("POST", MAPS, body or a_map())


def thing(version: str = "v1", **spec: Any) -> Spec:
    """Return an object of a custom kind."""
    meta = {"name": "x"}
    return {"apiVersion": f"policies.test/{version}", "kind": "Thing", "metadata": meta, "spec": spec}


def holds(expression: str, **more: Any) -> Spec:
    """Return a policy with one validation."""
    return {"validations": [{"expression": expression}], **more}


def rules(*resources: str, **more: Any) -> Spec:
    """Return match constraints for all operations on core resources."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": list(resources),
        **more,
    }
    return {"resourceRules": [rule]}


def thing_rules(*resources: str, **more: Any) -> Spec:
    """Return match constraints for all operations on the custom kind."""
    return rules(*resources, **{"apiGroups": ["policies.test"], **more})


def refused(name: str, policy: Spec, says: str, **more: Any) -> Case:
    """Return a case that is denied."""
    return Case(name, policy, **{"request": create(), "code": 422, "says": says, **more})


def allowed(name: str, policy: Spec, **more: Any) -> Case:
    """Return a case that passes."""
    return Case(name, policy, **{"request": create(), **more})


ERROR = "expression '{0}' resulted in error: no such key: {1}"
WITH_X = ((MAPS, a_map()),)
PATCH = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
AS_BOB = {"Impersonate-User": "bob", "Impersonate-Group": "system:masters"}
PARAMS = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
LIMIT = ((MAPS, {"metadata": {"name": "limit", "labels": {"p": "1"}}, "data": {"k": "other"}}),)
COMPARES = {**holds("object.data.k == params.data.k"), **PARAMS, "matchConstraints": rules("configmaps")}


def by_ref(**ref: Any) -> Spec:
    """Return a binding with parameters."""
    return {"paramRef": {"parameterNotFoundAction": "Deny", **ref}}


EXPRESSIONS = [
    refused("plain", {}, "no"),
    refused("no-message", holds("object.data.k == 'w'"), "failed expression: object.data.k == 'w'"),
    allowed("true", holds("object.data.k == 'v'")),
    refused(
        "message-trimmed",
        {"validations": [{"expression": "1 > 2", "message": "  two is more "}]},
        "two is more",
    ),
    refused(
        "message-expression",
        {"validations": [{"expression": "false", "messageExpression": "'not ' + object.metadata.name"}]},
        "not x",
    ),
    refused(
        "message-expression-fails",
        {
            "validations": [
                {"expression": "false", "message": "m", "messageExpression": "object.data.none + ''"}
            ]
        },
        "m",
    ),
    refused(
        "message-expression-lines",
        {"validations": [{"expression": "false", "messageExpression": "'a\\nb'"}]},
        "failed expression: false",
    ),
    refused(
        "forbidden",
        {"validations": [{"expression": "false", "reason": "Forbidden"}]},
        "failed expression: false",
        code=403,
        reason="Forbidden",
    ),
    refused(
        "too-large",
        {"validations": [{"expression": "false", "reason": "RequestEntityTooLarge"}]},
        "failed expression: false",
        code=413,
        reason="RequestEntityTooLarge",
    ),
    refused(
        "first-of-two",
        {"validations": [{"expression": "true"}, {"expression": "1 == 2"}, {"expression": "false"}]},
        "failed expression: 1 == 2",
    ),
    refused("missing-key", holds("object.data.none == 'x'"), ERROR.format("object.data.none == 'x'", "none")),
    refused("null-old", holds("oldObject.data.k == 'x'"), ERROR.format("oldObject.data.k == 'x'", "data")),
    refused("scalar-field", holds("object.data.k.z == 'x'"), ERROR.format("object.data.k.z == 'x'", "z")),
    allowed("has-of-null", holds("!has(oldObject.data) && oldObject == null")),
    allowed("error-ignored", holds("object.data.none == 'x'", failurePolicy="Ignore")),
    refused("denied-though-ignore", holds("false", failurePolicy="Ignore"), "failed expression: false"),
    refused(
        "overload",
        holds("object.metadata.name > 5"),
        "expression 'object.metadata.name > 5' resulted in error: no such overload",
    ),
    refused(
        "variables",
        holds(
            "variables.b == 'w'",
            variables=[
                {"name": "a", "expression": "object.data"},
                {"name": "b", "expression": "variables.a.k"},
            ],
        ),
        "failed expression: variables.b == 'w'",
    ),
    refused(
        "variable-fails",
        holds("variables.a == 'w'", variables=[{"name": "a", "expression": "object.none"}]),
        "expression 'variables.a == 'w'' resulted in error: composited variable \"a\" fails to evaluate: no"
        " such key: none",
    ),
    allowed(
        "variable-unread",
        holds("true || variables.a", variables=[{"name": "a", "expression": "object.no > 1"}]),
    ),
    allowed("condition-false", {"matchConditions": [{"name": "m", "expression": "object.data.k == 'w'"}]}),
    refused(
        "condition-true", {"matchConditions": [{"name": "m", "expression": "object.data.k == 'v'"}]}, "no"
    ),
    refused(
        "condition-fails",
        {"matchConditions": [{"name": "m", "expression": "object.no == 1"}]},
        ERROR.format("object.no == 1", "no"),
    ),
    refused(
        "conditions-fail",
        {"matchConditions": [{"name": n, "expression": f"object.{n} == 1"} for n in ("a", "b")]},
        f"[{ERROR.format('object.a == 1', 'a')}, {ERROR.format('object.b == 1', 'b')}]",
    ),
    allowed(
        "condition-false-outweighs",
        {
            "matchConditions": [
                {"name": "a", "expression": "object.a == 1"},
                {"name": "b", "expression": "false"},
            ]
        },
    ),
    allowed(
        "condition-fails-ignored",
        {"failurePolicy": "Ignore", "matchConditions": [{"name": "m", "expression": "object.no == 1"}]},
    ),
    allowed(
        "condition-namespace", {"matchConditions": [{"name": "m", "expression": "namespaceObject != null"}]}
    ),
    refused(
        "annotation-fails",
        holds("true", auditAnnotations=[{"key": "a", "valueExpression": "string(object.no)"}]),
        ERROR.format("string(object.no)", "no"),
    ),
    allowed("annotation", holds("true", auditAnnotations=[{"key": "a", "valueExpression": "'b'"}])),
]

MATCHING = [
    allowed(
        "excluded",
        {"matchConstraints": {**rules("*"), "excludeResourceRules": rules("configmaps")["resourceRules"]}},
    ),
    refused("every-resource", {"matchConstraints": rules("*/*")}, "no"),
    refused("map-and-parts", {"matchConstraints": rules("configmaps/*")}, "no"),
    allowed("only-delete", {"matchConstraints": rules("configmaps", operations=["DELETE"])}),
    allowed("scope-cluster", {"matchConstraints": rules("configmaps", scope="Cluster")}),
    refused("scope-namespaced", {"matchConstraints": rules("configmaps", scope="Namespaced")}, "no"),
    refused("by-name", {"matchConstraints": rules("configmaps", resourceNames=["x", "y"])}, "no"),
    allowed("by-other-name", {"matchConstraints": rules("configmaps", resourceNames=["y"])}),
    allowed(
        "object-selector",
        {
            "matchConstraints": {
                **rules("configmaps"),
                "objectSelector": {
                    "matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]
                },
            }
        },
    ),
    refused(
        "object-selector-old",
        {
            "matchConstraints": {
                **rules("configmaps", operations=["UPDATE"]),
                "objectSelector": {"matchLabels": {"app": "web"}},
            }
        },
        "no",
        before=WITH_X,
        request=("PUT", f"{MAPS}/x", {"metadata": {"name": "x"}}),
    ),
]
MATCHING.append(
    refused(
        "namespace-selector",
        {
            "matchConstraints": {
                **rules("configmaps"),
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": "team", "operator": "In", "values": ["green"]},
                        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["<ns>"]},
                    ]
                },
            }
        },
        "no",
        labels={"team": "green"},
    )
)

AUTHORIZER = [
    refused(
        "authorizer",
        holds("!authorizer.group('').resource('pods').namespace('<ns>').check('get').allowed()"),
        "failed expression: !authorizer.group('').resource('pods').namespace('<ns>').check('get').allowed()",
    ),
    allowed(
        "authorizer-account",
        holds(
            "!authorizer.serviceAccount('<ns>', 'no').group('').resource('secrets').check('list').allowed()"
        ),
    ),
    allowed("authorizer-path", holds("authorizer.path('/healthz').check('get').allowed()")),
    allowed(
        "authorizer-request",
        holds(
            "authorizer.requestResource.check('anything').allowed() && "
            "!authorizer.requestResource.check('create').errored()"
        ),
    ),
]
