"""Which requests match constraints are about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.kube.admission.constraints import AdmissionTarget, Labels, as_version, read_constraints

POD = AdmissionTarget("CREATE", "", "v1", "pods", namespace="ns", name="x")
STATUS = replace(POD, operation="UPDATE", subresource="status")
SPACE = AdmissionTarget("CREATE", "", "v1", "namespaces", namespace="x", name="x")
ROLE = AdmissionTarget("CREATE", "rbac.authorization.k8s.io", "v1", "clusterroles", name="x")
RULE = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}


def _matches(target: AdmissionTarget, labels: Labels = Labels(), **more: Any) -> bool:  # noqa: B008 - immutable
    rule = {**RULE, **{key: value for key, value in more.items() if key in RULE or key in _RULE_FIELDS}}
    rest = {key: value for key, value in more.items() if key not in rule}
    return read_constraints({"resourceRules": [rule], **rest}).match(target, lambda: labels) is not None


_RULE_FIELDS = ("scope", "resourceNames")


@pytest.mark.parametrize(
    ("resources", "pod", "status"),
    [
        (["pods"], True, False),
        (["pods/status"], False, True),
        (["pods/*"], True, True),
        (["*"], True, False),
        (["*/*"], True, True),
        (["*/status"], False, True),
        (["secrets", "*/scale"], False, False),
    ],
)
def test_resources_and_their_parts(resources: list[str], pod: bool, status: bool) -> None:
    assert _matches(POD, resources=resources) == pod
    assert _matches(STATUS, resources=resources) == status


@pytest.mark.parametrize(
    ("target", "namespaced"), [(POD, True), (SPACE, False), (ROLE, False)], ids=["pod", "namespace", "role"]
)
def test_scope(target: AdmissionTarget, namespaced: bool) -> None:
    assert _matches(target, scope="Namespaced") == namespaced
    assert _matches(target, scope="Cluster") == (not namespaced)
    assert _matches(target, scope="*")


def test_selectors_of_objects_look_at_both_sides_and_need_one() -> None:
    web: dict[str, Any] = {"objectSelector": {"matchLabels": {"app": "web"}}}
    assert _matches(POD, Labels(new={}, old={"app": "web"}), **web)
    assert _matches(POD, Labels(new={"app": "web"}), **web)
    assert not _matches(POD, Labels(new={"app": "db"}, old={}), **web)
    absent: dict[str, Any] = {
        "objectSelector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}
    }
    assert not _matches(POD, Labels(), **absent), "an object that is not there has no labels to lack"


def test_selectors_of_namespaces_do_not_exempt_what_is_in_none() -> None:
    red: dict[str, Any] = {"namespaceSelector": {"matchLabels": {"team": "red"}}}
    assert _matches(ROLE, Labels(), **red)
    assert not _matches(POD, Labels(namespace={"team": "green"}), **red)
    assert _matches(SPACE, Labels(namespace={"team": "red"}), **red)


def test_another_version_matches_unless_exactness_is_asked_for() -> None:
    other = as_version(POD, "", "v2", "pods")
    rule = {**RULE, "apiVersions": ["v2"]}
    assert read_constraints({"resourceRules": [rule]}).match(POD, Labels, lambda: [other]) is other
    exact = {"resourceRules": [rule], "matchPolicy": "Exact"}
    assert read_constraints(exact).match(POD, Labels, lambda: [other]) is None
    excluded = {"resourceRules": [RULE], "excludeResourceRules": [rule]}
    assert read_constraints(excluded).match(POD, Labels, lambda: [other]) is None


_WORDS = st.sampled_from(["a", "b", "*"])
_TARGETS = st.builds(
    AdmissionTarget,
    operation=st.sampled_from(["CREATE", "UPDATE", "DELETE"]),
    group=st.sampled_from(["a", "b"]),
    version=st.sampled_from(["a", "b"]),
    resource=st.sampled_from(["a", "b"]),
    subresource=st.sampled_from(["", "a"]),
    namespace=st.sampled_from(["", "ns"]),
    name=st.sampled_from(["", "a", "b"]),
)
_RULES = st.fixed_dictionaries(
    {
        "apiGroups": st.lists(_WORDS, min_size=1, max_size=2),
        "apiVersions": st.lists(_WORDS, min_size=1, max_size=2),
        "operations": st.lists(st.sampled_from(["CREATE", "*"]), min_size=1, max_size=1),
        "resources": st.lists(st.sampled_from(["a", "b/*", "*", "*/a", "*/*"]), min_size=1, max_size=2),
        "scope": st.sampled_from(["*", "Cluster", "Namespaced"]),
        "resourceNames": st.lists(st.sampled_from(["a", "b"]), max_size=1),
    }
)


@given(st.lists(_RULES, max_size=3), _TARGETS)
def test_rules_are_alternatives_and_exclusions_win(
    rules: list[dict[str, Any]], target: AdmissionTarget
) -> None:
    def found(**spec: Any) -> bool:
        return read_constraints(spec).match(target, Labels) is not None

    any_of = any(found(resourceRules=[rule]) for rule in rules)
    assert found(resourceRules=rules) == (any_of or not rules)
    assert found(resourceRules=[RULE], excludeResourceRules=rules) == (not any_of)
    assert not found(resourceRules=rules, excludeResourceRules=[RULE])
