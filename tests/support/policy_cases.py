"""The rest of the table of admission policies: what requests look like, and what bindings add."""

from __future__ import annotations

from support.policy_table import (
    APPLY,
    AS_BOB,
    AUTHORIZER,
    COMPARES,
    EXPRESSIONS,
    LIMIT,
    MAPS,
    MATCHING,
    PATCH,
    THINGS,
    WITH_X,
    Case,
    a_map,
    allowed,
    by_ref,
    holds,
    refused,
    rules,
    thing,
    thing_rules,
)

REQUESTS = [
    allowed(
        "request",
        holds(
            "request.operation == 'CREATE' && request.kind.kind == 'ConfigMap' && "
            "request.kind.group == '' && "
            "request.resource.resource == 'configmaps' && request.requestResource.version == 'v1' && "
            "request.name == 'x' && request.namespace == '<ns>' && !has(request.subResource) && "
            "request.userInfo.username == 'bob' && 'system:masters' in request.userInfo.groups && "
            "request.dryRun == false && request.options.kind == 'CreateOptions' && "
            "request.options.fieldManager == 'me' && !has(request.options.dryRun)"
        ),
        request=("POST", f"{MAPS}?fieldManager=me", a_map()),
        headers=AS_BOB,
    ),
    refused(
        "dry-run",
        holds("!request.dryRun"),
        "failed expression: !request.dryRun",
        request=("POST", f"{MAPS}?dryRun=All", a_map()),
    ),
    allowed(
        "namespace-object",
        holds(
            "namespaceObject.metadata.name == '<ns>' && namespaceObject.metadata.labels.team == 'red' && "
            "namespaceObject.status.phase == 'Active'"
        ),
        labels={"team": "red"},
    ),
    allowed(
        "metadata-is-there",
        holds(
            "has(object.metadata.uid) && has(object.metadata.creationTimestamp) && "
            "object.kind == 'ConfigMap' && "
            "object.apiVersion == 'v1' && object.metadata.namespace == '<ns>'"
        ),
    ),
    allowed(
        "update",
        holds(
            "request.operation == 'UPDATE' && oldObject.data.k == 'v' && object.data.k == 'w' && "
            "request.options.kind == 'UpdateOptions'"
        ),
        before=WITH_X,
        request=("PUT", f"{MAPS}/x", a_map(data={"k": "w"})),
        code=200,
    ),
    refused(
        "patch",
        holds("object.data.k == oldObject.data.k"),
        "failed expression: object.data.k == oldObject.data.k",
        before=WITH_X,
        request=("PATCH", f"{MAPS}/x", {"data": {"k": "w"}}),
        headers=PATCH,
    ),
    refused(
        "apply",
        holds("object.data.k == oldObject.data.k"),
        "failed expression: object.data.k == oldObject.data.k",
        before=WITH_X,
        headers=APPLY,
        request=(
            "PATCH",
            f"{MAPS}/x?fieldManager=a&force=true",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"k": "w"}},
        ),
    ),
    refused(
        "apply-creates",
        holds("request.operation != 'CREATE'"),
        "failed expression: request.operation != 'CREATE'",
        headers=APPLY,
        request=(
            "PATCH",
            f"{MAPS}/x?fieldManager=a",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"k": "w"}},
        ),
    ),
    refused(
        "no-change",
        holds("false", matchConstraints=rules("configmaps", operations=["UPDATE"])),
        "failed expression: false",
        before=WITH_X,
        request=("PATCH", f"{MAPS}/x", {}),
        headers=PATCH,
    ),
    refused(
        "delete",
        holds("object != null || oldObject.data.k != 'v'"),
        "failed expression: object != null || oldObject.data.k != 'v'",
        before=WITH_X,
        request=("DELETE", f"{MAPS}/x", None),
    ),
    allowed(
        "delete-options",
        holds("request.options.kind == 'DeleteOptions' && request.name == 'x'"),
        before=WITH_X,
        request=("DELETE", f"{MAPS}/x", None),
        code=200,
    ),
    refused(
        "delete-collection",
        holds("has(request.name) || oldObject.metadata.name != 'x'"),
        "failed expression: has(request.name) || oldObject.metadata.name != 'x'",
        about='configmaps "Unknown"',
        before=WITH_X,
        request=("DELETE", f"{MAPS}?labelSelector=app%3Dweb", None),
    ),
    allowed("get", {}, before=WITH_X, request=("GET", f"{MAPS}/x", None), code=200),
    allowed(
        "defaults-are-there",
        {**holds("object.spec.size == 3"), "matchConstraints": thing_rules("things")},
        request=("POST", THINGS, thing()),
    ),
    Case(
        "invalid-comes-first",
        {"matchConstraints": thing_rules("things")},
        code=422,
        request=("POST", THINGS, thing(size="text")),
        says='!Thing.policies.test "x" is invalid: spec.size: Invalid '
        'value: "string": spec.size in body must be of type integer: "string"',
    ),
    refused(
        "status",
        holds("!object.status.ok", matchConstraints=thing_rules("things/status")),
        "failed expression: !object.status.ok",
        about='things.policies.test "x"',
        before=((THINGS, thing()),),
        request=("PATCH", f"{THINGS}/x/status", {"status": {"ok": True}}),
        headers=PATCH,
    ),
    allowed(
        "status-is-not-the-rest",
        {"matchConstraints": thing_rules("things/status")},
        request=("POST", THINGS, thing()),
    ),
    allowed(
        "other-version-exact",
        {"matchConstraints": {**thing_rules("things"), "matchPolicy": "Exact"}},
        request=("POST", THINGS.replace("v1", "v2"), thing("v2")),
    ),
    refused(
        "other-version",
        {
            **holds(
                "object.apiVersion != 'policies.test/v1' || request.kind.version != 'v1' || "
                "request.requestKind.version != 'v2'"
            ),
            "matchConstraints": thing_rules("things"),
        },
        "failed expression: object.apiVersion != 'policies.test/v1' || "
        "request.kind.version != 'v1' || request.requestKind.version != 'v2'",
        about='things.policies.test "x"',
        request=("POST", THINGS.replace("v1", "v2"), thing("v2")),
    ),
    refused(
        "namespace-itself",
        {
            **holds("request.namespace != '<ns>-made' || namespaceObject != null"),
            "matchConstraints": {**rules("namespaces", resourceNames=["<ns>-made"]), "namespaceSelector": {}},
        },
        "failed expression: request.namespace != '<ns>-made' || namespaceObject != null",
        about='namespaces "<ns>-made"',
        request=("POST", "/api/v1/namespaces", {"metadata": {"name": "<ns>-made"}}),
    ),
    refused(
        "cluster-scope",
        {
            **holds("has(request.namespace)"),
            "matchConstraints": {
                **rules("clusterroles", apiGroups=["*"], resourceNames=["<ns>-role"]),
                "namespaceSelector": {"matchLabels": {"none": "such"}},
            },
        },
        "failed expression: has(request.namespace)",
        about='clusterroles.rbac.authorization.k8s.io "<ns>-role"',
        request=(
            "POST",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            {"metadata": {"name": "<ns>-role"}},
        ),
    ),
    refused(
        "token-request",
        {
            **holds("request.subResource != 'token' || request.kind.kind != 'TokenRequest'"),
            "matchConstraints": rules("serviceaccounts/token"),
        },
        "failed expression: request.subResource != 'token' || request.kind.kind != 'TokenRequest'",
        about='serviceaccounts "robot"',
        before=(("/api/v1/namespaces/<ns>/serviceaccounts", {"metadata": {"name": "robot"}}),),
        request=("POST", "/api/v1/namespaces/<ns>/serviceaccounts/robot/token", {"spec": {}}),
    ),
    allowed(
        "policies-are-exempt",
        {
            "matchConstraints": {
                **rules("validatingadmissionpolicybindings", apiGroups=["*"], resourceNames=["<ns>-more"]),
                "namespaceSelector": {},
            },
        },
        request=(
            "POST",
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
            {
                "metadata": {"name": "<ns>-more"},
                "spec": {"policyName": "none", "validationActions": ["Audit"]},
            },
        ),
    ),
    allowed(
        "reviews-are-exempt",
        {"matchConstraints": {**rules("localsubjectaccessreviews", apiGroups=["*"])}},
        request=(
            "POST",
            "/apis/authorization.k8s.io/v1/namespaces/<ns>/localsubjectaccessreviews",
            {
                "metadata": {"namespace": "<ns>"},
                "spec": {"user": "a", "resourceAttributes": {"namespace": "<ns>", "verb": "get"}},
            },
        ),
    ),
]

BINDINGS = [
    allowed(
        "warn",
        {},
        binding={"validationActions": ["Warn"]},
        warnings=("Validation failed for ValidatingAdmissionPolicy '<ns>' with binding '<ns>': no",),
    ),
    allowed(
        "warn-twice",
        {"validations": [{"expression": "false", "message": text} for text in ('a "q"', "b", "b")]},
        binding={"validationActions": ["Warn", "Audit"]},
        warnings=(
            "Validation failed for ValidatingAdmissionPolicy '<ns>' with binding '<ns>': a \\\"q\\\"",
            "Validation failed for ValidatingAdmissionPolicy '<ns>' with binding '<ns>': b",
        ),
    ),
    allowed(
        "warn-on-delete",
        {},
        binding={"validationActions": ["Warn"]},
        before=WITH_X,
        code=200,
        request=("DELETE", f"{MAPS}/x", None),
        warnings=("Validation failed for ValidatingAdmissionPolicy '<ns>' with binding '<ns>': no",),
    ),
    allowed("audit", {}, binding={"validationActions": ["Audit"]}),
    refused("deny-and-audit", {}, "no", binding={"validationActions": ["Deny", "Audit"]}),
    allowed(
        "binding-narrows", {}, binding={"matchResources": {"objectSelector": {"matchLabels": {"app": "db"}}}}
    ),
    refused(
        "binding-fits",
        {},
        "no",
        binding={"matchResources": {"objectSelector": {"matchLabels": {"app": "web"}}}},
    ),
    allowed("binding-of-another", {}, binding={"policyName": "<ns>-other"}),
    refused(
        "param",
        COMPARES,
        "failed expression: object.data.k == params.data.k",
        before=LIMIT,
        binding=by_ref(name="limit"),
    ),
    refused(
        "param-elsewhere",
        COMPARES,
        "failed expression: object.data.k == params.data.k",
        before=LIMIT,
        binding=by_ref(name="limit", namespace="<ns>"),
    ),
    refused(
        "param-selected",
        COMPARES,
        "failed expression: object.data.k == params.data.k",
        before=LIMIT,
        binding=by_ref(selector={"matchLabels": {"p": "1"}}),
    ),
    refused(
        "param-missing",
        COMPARES,
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
        binding=by_ref(name="none"),
    ),
    allowed("param-missing-allowed", COMPARES, binding=by_ref(name="none", parameterNotFoundAction="Allow")),
    allowed("param-missing-ignored", {**COMPARES, "failurePolicy": "Ignore"}, binding=by_ref(name="none")),
    refused("param-null", {**COMPARES, **holds("params != null")}, "failed expression: params != null"),
    refused(
        "param-kind-unknown",
        {**COMPARES, "paramKind": {"apiVersion": "none.test/v1", "kind": "Nope"}},
        "!configmaps \"x\" is forbidden: ValidatingAdmissionPolicy '<ns>' denied request: failed to "
        "configure policy: failed to find resource referenced by paramKind: 'none.test/v1, Kind=Nope'",
        binding=by_ref(name="a"),
    ),
    refused(
        "param-custom",
        {
            **holds("size(object.data) > params.spec.most"),
            "paramKind": {"apiVersion": "policies.test/v1", "kind": "Thing"},
        },
        "failed expression: size(object.data) > params.spec.most",
        before=((THINGS, thing(most=1)),),
        binding=by_ref(name="x"),
    ),
    refused(
        "param-needs-namespace",
        {
            **COMPARES,
            "matchConstraints": {
                **rules("clusterroles", apiGroups=["*"], resourceNames=["<ns>-role"]),
                "namespaceSelector": {},
            },
        },
        "failed to configure binding: cannot use namespaced paramRef in policy binding that matches "
        "cluster-scoped resources",
        about='clusterroles.rbac.authorization.k8s.io "<ns>-role"',
        binding=by_ref(name="limit"),
        request=(
            "POST",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            {"metadata": {"name": "<ns>-role"}},
        ),
    ),
]


CASES = [*EXPRESSIONS, *REQUESTS, *BINDINGS, *MATCHING, *AUTHORIZER]
