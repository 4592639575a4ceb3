"""Policies and bindings with something wrong, or on the edge of it."""

from __future__ import annotations

from typing import Any

Spec = dict[str, Any]
RULE: Spec = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["configmaps"],
}
GOOD: Spec = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}]}
BOUND: Spec = {"policyName": "some", "validationActions": ["Deny"]}


def rule(**more: Any) -> Spec:
    """Return a policy whose one resource rule differs."""
    return {**GOOD, "matchConstraints": {"resourceRules": [{**RULE, **more}]}}


def matching(**more: Any) -> Spec:
    """Return a policy whose match constraints differ."""
    return {**GOOD, "matchConstraints": {"resourceRules": [RULE], **more}}


def validation(**more: Any) -> Spec:
    """Return a policy whose one validation differs."""
    return {**GOOD, "validations": [{"expression": "true", **more}]}


def condition(**more: Any) -> Spec:
    """Return a policy with a match condition."""
    return {**GOOD, "matchConditions": [{"name": "a", "expression": "true", **more}]}


def variable(*given: tuple[str, str], expression: str = "true") -> Spec:
    """Return a policy with variables."""
    named = [{"name": name, "expression": source} for name, source in given]
    return {**GOOD, "variables": named, "validations": [{"expression": expression}]}


def annotation(*given: tuple[str, str]) -> Spec:
    """Return a policy with audit annotations."""
    return {**GOOD, "auditAnnotations": [{"key": key, "valueExpression": value} for key, value in given]}


def selector(key: str = "a", operator: str = "In", *values: str) -> Spec:
    """Return a label selector of one requirement."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def ref(**more: Any) -> Spec:
    """Return a binding with parameters."""
    return {**BOUND, "paramRef": more}


POLICIES: dict[str, Spec] = {
    "good": GOOD,
    "empty": {},
    "no-rules": {**GOOD, "matchConstraints": {}},
    "no-validations": {"matchConstraints": GOOD["matchConstraints"]},
    "failure-policy": {**GOOD, "failurePolicy": "Maybe"},
    "match-policy": matching(matchPolicy="Roughly"),
    "no-groups": rule(apiGroups=[]),
    "groups-star": rule(apiGroups=["*", "apps"]),
    "no-versions": rule(apiVersions=[]),
    "empty-version": rule(apiVersions=[""]),
    "versions-star": rule(apiVersions=["*", "v1"]),
    "no-operations": rule(operations=[]),
    "operation": rule(operations=["READ"]),
    "operations-star": rule(operations=["*", "CREATE"]),
    "no-resources": rule(resources=[]),
    "empty-resource": rule(resources=[""]),
    "resources-star": rule(resources=["*", "pods"]),
    "resources-star-last": rule(resources=["pods", "*"]),
    "resources-double-star": rule(resources=["*/*", "pods"]),
    "resource-parts": rule(resources=["pods/*", "pods/status"]),
    "parts-resource": rule(resources=["*/status", "pods/status"]),
    "scope": rule(scope="Global"),
    "names-twice": rule(resourceNames=["a", "a"]),
    "names-slash": rule(resourceNames=["a/b", ".."]),
    "excluded": matching(excludeResourceRules=[{**RULE, "operations": ["X"]}]),
    "selector-operator": matching(objectSelector=selector("a", "Like", "b")),
    "selector-values": matching(objectSelector=selector("a", "In")),
    "selector-no-values": matching(namespaceSelector=selector("a", "Exists", "b")),
    "selector-key": matching(namespaceSelector=selector("-a", "In", "b")),
    "selector-value": matching(namespaceSelector=selector("a", "In", "-b")),
    "selector-labels": matching(objectSelector={"matchLabels": {"-a": "-b"}}),
    "no-expression": validation(expression=""),
    "blank-expression": validation(expression=" "),
    "syntax": validation(expression="object."),
    "unknown-name": validation(expression="self.x == 1"),
    "no-params": validation(expression="params == null"),
    "request-field": validation(expression="request.object == null"),
    "namespace-field": validation(expression="namespaceObject.metadata.managedFields == null"),
    "not-bool": validation(expression="object.metadata.name"),
    "number": validation(expression="1 + 1"),
    "wrong-types": validation(expression="request.name == 1"),
    "message-blank": validation(message="  "),
    "message-lines": validation(message="a\nb"),
    "message-expression": validation(messageExpression="1"),
    "message-expression-blank": validation(messageExpression="  "),
    "message-expression-dyn": validation(messageExpression="object.metadata.name"),
    "message-expression-authorizer": validation(
        messageExpression="string(authorizer.path('/x').check('get').allowed())"
    ),
    "reason": validation(reason="Unauthorized"),
    "reason-empty": validation(reason="Nope"),
    "condition": condition(expression="1"),
    "condition-blank": condition(expression=""),
    "condition-name": condition(name="a b"),
    "condition-no-name": condition(name=""),
    "condition-variables": {
        **condition(expression="variables.a"),
        "variables": [{"name": "a", "expression": "true"}],
    },
    "conditions-twice": {**GOOD, "matchConditions": [{"name": "a", "expression": "true"}] * 2},
    "conditions-many": {
        **GOOD,
        "matchConditions": [{"name": f"a{i}", "expression": "true"} for i in range(65)],
    },
    "variable": variable(("a", "1"), expression="variables.a == 1"),
    "variable-name": variable(("a-b", "1")),
    "variable-reserved": variable(("for", "1")),
    "variable-empty": variable(("", "")),
    "variable-later": variable(("a", "variables.b"), ("b", "1")),
    "variable-type": variable(("a", "1"), expression="variables.a == 'x'"),
    "variable-undefined": variable(("a", "1"), expression="variables.b"),
    "variables-none": validation(expression="variables.a"),
    "annotation": annotation(("a", "'x'")),
    "annotation-key": annotation(("a b", "'x'")),
    "annotation-twice": annotation(("a", "'x'"), ("a", "'y'")),
    "annotation-empty": annotation(("a", "")),
    "annotation-number": annotation(("a", "1")),
    "annotation-null": annotation(("a", "null")),
    "param-kind": {**GOOD, "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}},
    "param-kind-empty": {**GOOD, "paramKind": {}},
    "param-kind-version": {**GOOD, "paramKind": {"apiVersion": "a/b/c", "kind": "-X"}},
    "param-kind-group": {**GOOD, "paramKind": {"apiVersion": "-a/V1", "kind": "X"}},
    "param-kind-no-version": {**GOOD, "paramKind": {"apiVersion": "a/", "kind": "X"}},
    "authorizer": validation(expression="authorizer.group('').resource('x').check('get').allowed()"),
    "authorizer-decision": validation(expression="authorizer.requestResource.check('get')"),
    "authorizer-verb": validation(expression="authorizer.path('/x').check(1).allowed()"),
}
BINDINGS: dict[str, Spec] = {
    "good": BOUND,
    "empty": {},
    "policy-name": {**BOUND, "policyName": "A_b"},
    "no-actions": {**BOUND, "validationActions": []},
    "action": {**BOUND, "validationActions": ["Log"]},
    "actions-twice": {**BOUND, "validationActions": ["Audit", "Audit"]},
    "deny-and-warn": {**BOUND, "validationActions": ["Deny", "Warn"]},
    "match-nothing": {**BOUND, "matchResources": {}},
    "match-policy": {**BOUND, "matchResources": {"matchPolicy": "X"}},
    "match-rule": {**BOUND, "matchResources": {"resourceRules": [{}]}},
    "ref-empty": ref(),
    "ref-both": ref(name="a", selector={}, parameterNotFoundAction="Deny"),
    "ref-no-action": ref(name="a"),
    "ref-action": ref(name="a", parameterNotFoundAction="Maybe"),
    "ref-name": ref(name="a/b", parameterNotFoundAction="Allow"),
    "ref-selector": ref(selector=selector("a", "In"), parameterNotFoundAction="Allow"),
    "ref-good": ref(selector={}, parameterNotFoundAction="Allow"),
}
