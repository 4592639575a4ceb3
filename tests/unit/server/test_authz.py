from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

from nodemanager.kube.errors import BadRequest, Forbidden, Invalid, NotFound
from nodemanager.kube.rbac.identity import Attributes, User
from nodemanager.server.access import access_reviews, authz, role_writes
from nodemanager.server.access.authz import Authorizer
from support import rbac_objects as rbac
from support.rbac_world import Lister

GET = Attributes("get", resource="pods", namespace="ns", name="x")
ALICE = User("alice")


class CountingLister(Lister):
    """Counts how often it is read."""

    reads = 0

    def roles(self, namespace: str) -> Iterable[dict[str, Any]]:
        self.reads += not namespace
        return super().roles(namespace)


def test_answers_are_remembered_until_something_changes() -> None:
    lister = CountingLister()
    authorizer = Authorizer(lister)
    assert not any(authorizer.decide(ALICE, GET).allowed for _ in range(3))
    assert lister.reads == 1
    lister.objects["clusterroles"] = [rbac.role("r", rbac.rule("get", "pods"))]
    lister.objects["clusterrolebindings"] = [rbac.binding("b", "ClusterRole/r", "User/alice")]
    assert not authorizer.decide(ALICE, GET).allowed
    lister.revision += 1
    assert authorizer.decide(ALICE, GET).allowed
    lister.objects["clusterrolebindings"] = []
    lister.revision += 1
    assert not authorizer.decide(ALICE, GET).allowed


def test_an_answer_is_not_given_to_somebody_else() -> None:
    authorizer = rbac.authorizer(
        [rbac.role("r", rbac.rule("get", "pods"))], [rbac.binding("b", "ClusterRole/r", "Group/g")]
    )
    assert authorizer.decide(User("alice", ("g",)), GET).allowed
    assert not authorizer.decide(ALICE, GET).allowed


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authz, "MAX_DECISIONS", 10)
    monkeypatch.setattr(authz, "MAX_SCOPES", 5)
    authorizer = Authorizer(Lister())
    for number in range(50):
        authorizer.decide(ALICE, Attributes("get", resource="pods", namespace=f"n{number}"))
    assert len(authorizer._decisions) <= 10
    assert len(authorizer._scopes) <= 5


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (GET, 'pods "x" is forbidden: {} get resource "pods" in API group "" in the namespace "ns"'),
        (
            Attributes("list", "batch", resource="jobs"),
            'jobs.batch is forbidden: {} list resource "jobs" in API group "batch" at the cluster scope',
        ),
        (Attributes("get", path="/<x>"), 'forbidden: {} get path "/&lt;x&gt;"'),
    ],
)
def test_refusals_are_worded_as_kubernetes_does(asked: Attributes, text: str) -> None:
    with pytest.raises(Forbidden) as refusal:
        Authorizer(Lister()).require(ALICE, asked)
    assert str(refusal.value) == text.format('User "alice" cannot')


def writer(*more: dict[str, Any]) -> Authorizer:
    """Return an authoriser under which alice may get pods, and what else is given."""
    roles = [rbac.role("mine", rbac.rule("get", "pods"), *more), rbac.role("big", rbac.rule("*", "*", "*"))]
    return rbac.authorizer(roles, [rbac.binding("b", "ClusterRole/mine", "User/alice")])


def test_a_role_may_hold_what_its_author_holds() -> None:
    role_writes.check_role(writer(), ALICE, rbac.role("new", rbac.rule("get", "pods")), namespace="ns")
    with pytest.raises(
        Forbidden, match=r'^roles\.rbac\S+ "new" is forbidden: user "alice" \(groups=\[\]\) is att'
    ):
        role_writes.check_role(writer(), ALICE, rbac.role("new", rbac.rule("list", "pods")), namespace="ns")


def test_the_verb_escalate_lifts_that_by_resource_and_name() -> None:
    escalate = rbac.rule("escalate", "clusterroles", "rbac.authorization.k8s.io", resourceNames=["new"])
    new = rbac.role("new", rbac.rule("*", "*"))
    role_writes.check_role(writer(escalate), ALICE, new, url_name="new")
    for namespace, url_name in (("", ""), ("", "other"), ("ns", "new")):
        with pytest.raises(Forbidden):
            role_writes.check_role(writer(escalate), ALICE, new, namespace=namespace, url_name=url_name)


def test_aggregation_needs_everything_also_when_it_is_taken_away() -> None:
    gathering = rbac.role("new", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]})
    plain = rbac.role("new")
    for role, old in ((gathering, None), (plain, gathering)):
        with pytest.raises(Forbidden, match="must have cluster-admin privileges to use the aggregationRule"):
            role_writes.check_role(writer(), ALICE, role, old=old)
    role_writes.check_role(writer(), ALICE, plain, old=plain)
    role_writes.check_role(
        writer(rbac.rule("*", "*", "*"), {"verbs": ["*"], "nonResourceURLs": ["*"]}), ALICE, gathering
    )


@pytest.mark.parametrize("namespace", ["", "ns"])
def test_a_binding_gives_what_its_author_holds(namespace: str) -> None:
    role_writes.check_binding(
        writer(), ALICE, rbac.binding("n", "ClusterRole/mine", "User/x"), namespace=namespace
    )
    with pytest.raises(Forbidden, match="not currently held"):
        role_writes.check_binding(
            writer(), ALICE, rbac.binding("n", "ClusterRole/big", "User/x"), namespace=namespace
        )
    bind = rbac.rule("bind", "clusterroles", "rbac.authorization.k8s.io", resourceNames=["big"])
    big = rbac.binding("n", "ClusterRole/big", "User/x")
    role_writes.check_binding(writer(bind), ALICE, big, namespace=namespace)
    with pytest.raises(NotFound, match=r'bindings\.rbac\.authorization\.k8s\.io "gone" not found'):
        role_writes.check_binding(writer(), ALICE, rbac.binding("n", "ClusterRole/gone"), namespace=namespace)
    with pytest.raises(BadRequest, match="unsupported role reference kind"):
        role_writes.check_binding(writer(), ALICE, rbac.binding("n", "Other/x"), namespace=namespace)


def test_finalizers_and_owners_are_no_grant() -> None:
    old = rbac.role("big", rbac.rule("*", "*", "*"))
    done = {**old, "metadata": {**old["metadata"], "finalizers": [], "ownerReferences": [{"uid": "1"}]}}
    role_writes.check_role(writer(), ALICE, done, url_name="big", old=old)
    bound = rbac.binding("n", "ClusterRole/big", "User/x")
    freed = {**bound, "metadata": {"name": "n", "finalizers": ["a/b"]}}
    role_writes.check_binding(writer(), ALICE, freed, old=bound)
    labelled = {**bound, "metadata": {"name": "n", "labels": {"a": "b"}}}
    with pytest.raises(Forbidden):
        role_writes.check_binding(writer(), ALICE, labelled, old=bound)
    with pytest.raises(Forbidden):
        role_writes.check_role(
            writer(), ALICE, {**done, "rules": [*old["rules"], rbac.rule("x", "y")]}, old=old
        )


def test_masters_grant_what_they_like() -> None:
    master = User("m", ("system:masters",))
    role_writes.check_role(Authorizer(Lister()), master, rbac.role("r", rbac.rule("*", "*", "*")))
    role_writes.check_binding(Authorizer(Lister()), master, rbac.binding("b", "ClusterRole/none"))


def test_a_review_of_others_and_of_oneself() -> None:
    authorizer = writer()
    spec = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    other = access_reviews.subject_access_review(authorizer, {"spec": {"user": "alice", **spec}})
    assert other["status"]["allowed"]
    assert other["spec"] == {"user": "alice", **spec}
    mine = access_reviews.self_subject_access_review(authorizer, ALICE, {"spec": {**spec, "user": "bob"}})
    assert mine["status"] == other["status"]
    assert not access_reviews.subject_access_review(authorizer, {"spec": {"user": "bob", **spec}})["status"][
        "allowed"
    ]


def test_reviews_refuse_what_is_no_question() -> None:
    authorizer = writer()
    with pytest.raises(Invalid, match="exactly one of nonResourceAttributes or resourceAttributes"):
        access_reviews.self_subject_access_review(authorizer, ALICE, {})
    with pytest.raises(BadRequest, match="cannot be handled as a SubjectAccessReview"):
        access_reviews.subject_access_review(authorizer, {"spec": {"user": 5}})
    named = {"metadata": {"name": "x"}, "spec": {"resourceAttributes": {"verb": "get"}}}
    with pytest.raises(Invalid, match=r'metadata: Invalid value: \{"name":"x"\}: must be empty'):
        access_reviews.self_subject_access_review(authorizer, ALICE, named)
    elsewhere = {"spec": {"user": "u", "resourceAttributes": {"namespace": "other"}}}
    with pytest.raises(Invalid, match=r"must match metadata\.namespace"):
        access_reviews.local_subject_access_review(authorizer, "ns", elsewhere)


def test_rules_reviews_show_what_one_holds() -> None:
    body = {"spec": {"namespace": "ns"}}
    status = access_reviews.self_subject_rules_review(writer(), ALICE, body)["status"]
    assert status["resourceRules"] == [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
    with pytest.raises(BadRequest, match="no namespace on request"):
        access_reviews.self_subject_rules_review(writer(), ALICE, {})


def test_who_am_i() -> None:
    review = access_reviews.self_subject_review(ALICE, datetime(2026, 1, 1, tzinfo=UTC))
    assert review["status"] == {"userInfo": {"username": "alice"}}
    assert review["metadata"] == {"creationTimestamp": "2026-01-01T00:00:00Z"}
