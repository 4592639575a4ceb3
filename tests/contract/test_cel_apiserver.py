"""Our CEL before a real kube-apiserver: the same values, errors, refusals and messages."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodemanager.api import crds
from nodemanager.kube.cel.rules import RuleSet, check_rules
from nodemanager.kube.errors import Cause
from support import apiserver, cases, cel_judge, cel_table
from support.raw_api import RawApi

CHUNK = 45
PATHS = {
    crd["spec"]["names"]["kind"]: f"/apis/{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}"
    f"{'/namespaces/default' if crd['spec']['scope'] == 'Namespaced' else ''}/{crd['spec']['names']['plural']}"
    for crd in crds.all_crds()
}
SCHEMAS = {
    crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for crd in crds.all_crds()
}


@pytest.fixture(scope="module", name="api")
def _api(kube: apiserver.ApiServer) -> Iterator[RawApi]:
    raw = RawApi(kube)
    yield raw
    raw.close()


def install(api: RawApi, crd: dict[str, Any], path: str) -> None:
    """Install a definition and wait until its objects are served."""
    answer = api.ask("POST", cel_judge.CRDS, crd)
    assert answer.code in (201, 409), answer.body["message"]
    deadline = time.monotonic() + 30
    while api.ask("GET", path).code != 200:
        assert time.monotonic() < deadline, f"{path} is not served"


@pytest.mark.parametrize("start", range(0, len(cel_table.EXPRESSIONS), CHUNK))
def test_expressions(api: RawApi, start: int) -> None:
    expressions = cel_table.EXPRESSIONS[start : start + CHUNK]
    assert cel_judge.differences(api, expressions, f"judged{start}s") == []


def test_the_table_is_long_and_has_no_repetitions() -> None:
    assert len(cel_table.EXPRESSIONS) == len(set(cel_table.EXPRESSIONS)) > 500


@pytest.fixture(scope="module", name="ours")
def _ours(api: RawApi) -> RawApi:
    for crd in crds.all_crds():
        install(api, crd, PATHS[crd["spec"]["names"]["kind"]])
    return api


def is_rule(cause: Cause, kind: str) -> bool:
    """Tell whether a cause comes from a rule, by the messages of all rules of a kind."""
    return any(cause.message.endswith(message) for message in messages(SCHEMAS[kind]))


def messages(schema: Any) -> list[str]:
    if not isinstance(schema, dict):
        return []
    found = [str(rule["message"]) for rule in schema.get("x-kubernetes-validations", ())]
    below = [schema.get("items"), schema.get("additionalProperties"), *schema.get("properties", {}).values()]
    return found + [message for each in below for message in messages(each)]


def documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each and each.get("kind") in SCHEMAS]


@pytest.mark.parametrize("path", [*cases.manifests("accepted"), *cases.manifests("refused")])
def test_our_own_manifests(ours: RawApi, path: Path) -> None:
    for document in documents(path):
        kind = document["kind"]
        answer = ours.ask("POST", f"{PATHS[kind]}?dryRun=All", document)
        causes = answer.body.get("details", {}).get("causes", [])
        theirs = [Cause(each["field"], each["reason"], each["message"]) for each in causes]
        # Rules are not run for values that the schema has refused already, so only its part is compared.
        if answer.code == 201 or all(is_rule(cause, kind) for cause in theirs):
            value = answer.body if answer.code == 201 else with_defaults(document, SCHEMAS[kind])
            key = lambda cause: (cause.field, cause.message)  # noqa: E731
            assert sorted(RuleSet(SCHEMAS[kind]).evaluate(value), key=key) == sorted(theirs, key=key)


def with_defaults(value: Any, schema: dict[str, Any]) -> Any:
    """Return a value with the defaults of its schema, which come before the rules."""
    if isinstance(value, list):
        return [with_defaults(each, schema.get("items", {})) for each in value]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties", {})
    defaults = {key: each["default"] for key, each in properties.items() if "default" in each}
    return {key: with_defaults(each, properties.get(key, {})) for key, each in {**defaults, **value}.items()}


RULED: dict[str, Any] = {
    "type": "object",
    "x-kubernetes-validations": [
        {"rule": "self.metadata.name.startsWith('r')"},
        {"rule": "!has(self.spec.root)", "fieldPath": ".spec.root", "message": "no root"},
    ],
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "root": {"type": "string", "maxLength": 9},
                "fixed": {
                    "type": "string",
                    "maxLength": 9,
                    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}],
                },
                "once": {
                    "type": "integer",
                    "x-kubernetes-validations": [
                        {
                            "rule": "!oldSelf.hasValue() || self >= oldSelf.value()",
                            "optionalOldSelf": True,
                            "messageExpression": "self < 1 ? 'too low' : 'cannot go down'",
                        }
                    ],
                },
                "forbidden": {
                    "type": "boolean",
                    "x-kubernetes-validations": [{"rule": "!self", "reason": "FieldValueForbidden"}],
                },
                "required": {
                    "type": "number",
                    "x-kubernetes-validations": [{"rule": "self > 1.0", "reason": "FieldValueRequired"}],
                },
                "twice": {
                    "type": "string",
                    "maxLength": 9,
                    "x-kubernetes-validations": [{"rule": "self != 'x'", "reason": "FieldValueDuplicate"}],
                },
                "mixed": {
                    "x-kubernetes-int-or-string": True,
                    "maxLength": 9,
                    "x-kubernetes-validations": [{"rule": "self < 5"}],
                },
                "free": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"known": {"type": "integer"}},
                    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "cannot change"}],
                },
                "labels": {
                    "type": "object",
                    "maxProperties": 4,
                    "additionalProperties": {
                        "type": "string",
                        "maxLength": 9,
                        "x-kubernetes-validations": [{"rule": "self != 'bad'"}],
                    },
                },
                "list": {
                    "type": "array",
                    "maxItems": 4,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": {"type": "string", "maxLength": 9},
                            "size": {
                                "type": "integer",
                                "x-kubernetes-validations": [{"rule": "self >= oldSelf"}],
                            },
                            "low": {
                                "type": "integer",
                                "x-kubernetes-validations": [{"rule": "10 / self > 1"}],
                            },
                        },
                    },
                },
            },
        }
    },
}
UPDATES = [
    pytest.param({}, {"fixed": "a"}, id="create"),
    pytest.param({"fixed": "a"}, {"fixed": "b"}, id="transition"),
    pytest.param({"once": 3}, {"once": 2}, id="optional-old"),
    pytest.param({}, {"once": 2}, id="optional-old-absent"),
    pytest.param({}, {"forbidden": True}, id="forbidden"),
    pytest.param({}, {"required": 0.5}, id="required"),
    pytest.param({}, {"twice": "x"}, id="duplicate"),
    pytest.param({}, {"mixed": 7}, id="int-or-string"),
    pytest.param({}, {"mixed": "7"}, id="no-such-overload"),
    pytest.param({}, {"labels": {"a": "bad"}}, id="map-values"),
    pytest.param({}, {"root": "x"}, id="field-path"),
    pytest.param({"free": {"a": {"b": 1}}}, {"free": {"a": {"b": 1}}}, id="unknown-fields-same"),
    pytest.param({"free": {"a": {"b": 1}}}, {"free": {"a": {"b": 2}}}, id="unknown-fields-changed"),
    pytest.param({"free": {"known": 1, "a": 1}}, {"free": {"known": 2, "a": 1}}, id="known-field-changed"),
    pytest.param({}, {"list": [{"name": "a", "low": 0}]}, id="division-by-zero"),
    pytest.param({}, {"list": [{"name": "a", "low": 9}]}, id="item"),
    pytest.param(
        {"list": [{"name": "a", "size": 2}, {"name": "b", "size": 5}]},
        {"list": [{"name": "b", "size": 4}, {"name": "a", "size": 3}, {"name": "c", "size": 0}]},
        id="items-by-key",
    ),
]


@pytest.mark.parametrize(("before", "after"), UPDATES)
def test_rules_on_create_and_update(api: RawApi, before: dict[str, Any], after: dict[str, Any]) -> None:
    path = "/apis/cel.test/v1/ruled"
    crd = cel_judge.crd_of(RULED, "ruled")
    install(api, crd, path)
    api.ask("DELETE", f"{path}/r1")
    created = api.ask("POST", path, ruled(before))
    assert created.code == 201, created.body
    version = created.body["metadata"]["resourceVersion"]
    answer = api.ask("PUT", f"{path}/r1", ruled(after, resourceVersion=version))
    theirs = [(each["field"], each["reason"], each["message"]) for each in details(answer.body)]
    ours = RuleSet(RULED).evaluate(ruled(after), old=ruled(before))
    assert sorted((each.field, each.reason, each.message) for each in ours) == sorted(theirs)


def details(body: dict[str, Any]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = body.get("details", {}).get("causes", [])
    return found


def ruled(spec: dict[str, Any], **metadata: str) -> dict[str, Any]:
    return {
        "apiVersion": "cel.test/v1",
        "kind": "Ruled",
        "metadata": {"name": "r1", **metadata},
        "spec": spec,
    }


def test_root_rule_is_named_nil(api: RawApi) -> None:
    path = "/apis/cel.test/v1/ruled"
    install(api, cel_judge.crd_of(RULED, "ruled"), path)
    bad = {**ruled({}), "metadata": {"name": "x1"}}
    theirs = [(each["field"], each["message"]) for each in details(api.ask("POST", path, bad).body)]
    assert [(each.field, each.message) for each in RuleSet(RULED).evaluate(bad)] == theirs != []


def test_values_that_were_wrong_before_do_not_refuse_an_update(api: RawApi) -> None:
    """A rule that came later does not lock objects that it would refuse, until the value changes."""
    path = "/apis/cel.test/v1/ratchets"
    plain = {"type": "object", "properties": {"spec": {"type": "object", "properties": {}}}}
    field = {"type": "integer"}
    plain["properties"]["spec"]["properties"] = {"a": field, "b": field}  # type: ignore[index]
    install(api, cel_judge.crd_of(plain, "ratchets"), path)
    first = {**ruled({"a": 1, "b": 1}), "kind": "Ratchets"}
    created = api.ask("POST", path, first)
    strict = {**field, "x-kubernetes-validations": [{"rule": "self > 5"}]}
    later = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"a": strict, "b": field}}},
    }
    current = api.ask("GET", f"{cel_judge.CRDS}/ratchets.cel.test").body
    current["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = later
    assert api.ask("PUT", f"{cel_judge.CRDS}/ratchets.cel.test", current).code == 200
    deadline = time.monotonic() + 30
    probe = {**first, "metadata": {"name": "probe"}}
    while api.ask("POST", f"{path}?dryRun=All", probe).code != 422:
        assert time.monotonic() < deadline
    for spec, code in (({"a": 1, "b": 2}, 200), ({"a": 2, "b": 2}, 422)):
        changed = {**created.body, "spec": spec}
        answer = api.ask("PUT", f"{path}/r1?dryRun=All", changed)
        ours = RuleSet(later).evaluate(changed, old=first)
        assert answer.code == code
        assert [each.message for each in ours] == [each["message"] for each in details(answer.body)]


BROKEN: list[dict[str, Any]] = [
    *({"rule": text} for text in ("self.nope", "1 +", "self", "foo()", "'a' == 1", "self.a.startsWith(1)")),
    *({"rule": text} for text in ("[1, 'a'].size() == 1", "x > 1 && true", "self.l.all(i, j)", "self.a.b")),
    {"rule": "true", "optionalOldSelf": True},
    {"rule": "true", "messageExpression": "1"},
    {"rule": "true", "messageExpression": "nope", "message": "<m>", "fieldPath": ".a"},
]


def test_rules_that_do_not_compile(api: RawApi) -> None:
    items = {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}
    spec = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "maxLength": 9},
            "l": {"type": "array", "maxItems": 3, "items": items},
        },
        "x-kubernetes-validations": BROKEN,
    }
    compare_refusals(api, {"type": "object", "properties": {"spec": spec}})


def test_rules_with_fields_that_cannot_be_used(api: RawApi) -> None:
    validations = [
        {"rule": ""},
        {"rule": "true", "message": " "},
        {"rule": "true", "message": "a\nb"},
        {"rule": "true ||\ntrue"},
        {"rule": "true", "fieldPath": ".nope"},
        {"rule": "true", "fieldPath": "a"},
    ]
    spec = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "x-kubernetes-validations": validations,
    }
    compare_refusals(api, {"type": "object", "properties": {"spec": spec}})


def compare_refusals(api: RawApi, schema: dict[str, Any]) -> None:
    answer = api.ask("POST", cel_judge.CRDS, cel_judge.crd_of(schema, "brokens"))
    theirs = {each["field"]: each["reason"] + each["message"] for each in details(answer.body)}
    ours = {each.field: each.reason + each.message for each in check_rules(schema)}
    assert sorted(ours) == sorted(theirs)
    for field, message in ours.items():
        if "Syntax error" not in message:  # parsers word those each in their own way
            assert first_error(message) == first_error(theirs[field])


def first_error(message: str) -> str:
    """Return a refusal up to the first error in it; the names of types are made up per request."""
    return re.sub(r"selfType\d*", "self", message.partition("\n")[0])
