"""What policies say, without a server."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nodemanager.kube.admission.expressions import EvaluationBudget
from nodemanager.kube.admission.policies import PolicyInputs, PolicyOutcome, Refusal, compile_policy
from nodemanager.kube.cel.lib.authz import AuthorizerValue
from nodemanager.kube.rbac.identity import Attributes, User
from nodemanager.kube.rbac.rules import AccessDecision

BIG = "[" + ",".join("0" for _ in range(200)) + "]"
LOOP = f"{BIG}.all(a, {BIG}.all(b, {BIG}.all(c, a + b + c >= 0)))"


def _ask(spec: dict[str, Any], budget: EvaluationBudget | None = None, **inputs: Any) -> PolicyOutcome:
    policy = compile_policy({"metadata": {"name": "p"}, "spec": spec})
    given_inputs = {"request": {"operation": "CREATE"}, "new": {"a": 1}, "old": None, **inputs}
    return policy.evaluate(PolicyInputs(**given_inputs), budget or EvaluationBudget())


def _holds(*expressions: str, **more: Any) -> dict[str, Any]:
    return {"validations": [{"expression": each} for each in expressions], **more}


def test_an_endless_expression_ends_as_the_failure_policy_says() -> None:
    refusals = _ask(_holds(LOOP)).refusals
    assert len(refusals) == 1
    assert refusals[0].message.endswith("operation cancelled: actual cost limit exceeded")
    assert _ask(_holds(LOOP, failurePolicy="Ignore")) == PolicyOutcome()


def test_all_policies_of_a_request_share_one_budget() -> None:
    budget = EvaluationBudget(1_000)
    assert _ask(_holds("object.a == 1"), budget) == PolicyOutcome()
    exhausted = _ask(_holds(f"{BIG}.all(a, {BIG}.all(b, a + b == 0))"), budget).refusals
    assert "running out of cost budget" in exhausted[0].message
    assert "running out of cost budget" in _ask(_holds("object.a == 1"), budget).refusals[0].message


def test_a_variable_is_computed_once_and_only_when_read() -> None:
    loop = f"{BIG}.all(a, {BIG}.all(b, a + b == 0))"
    spec = _holds(*["variables.slow"] * 5, variables=[{"name": "slow", "expression": loop}])
    once, budget = EvaluationBudget(), EvaluationBudget()
    assert _ask(_holds(loop), once) == _ask(spec, budget) == PolicyOutcome()
    assert (10_000_000 - budget.left) < 2 * (10_000_000 - once.left)
    unread, variables = EvaluationBudget(), spec["variables"]
    assert _ask(_holds("true", variables=variables), unread) == PolicyOutcome()
    assert 10_000_000 - unread.left < 100


def test_what_cannot_be_compiled_refuses_by_its_error() -> None:
    refusal = _ask(_holds("nobody.knows == 1")).refusals[0]
    assert refusal.message.startswith("compilation error: compilation failed: ERROR: <input>:1:1: undeclared")
    assert _ask(_holds("nobody.knows == 1", failurePolicy="Ignore")) == PolicyOutcome()


def test_messages_do_not_see_the_authorizer() -> None:
    spec = _holds(
        "false", variables=[{"name": "v", "expression": "authorizer.path('/x').check('get').allowed()"}]
    )
    spec["validations"][0] |= {"message": "plain", "messageExpression": "string(variables.v)"}
    asked = AuthorizerValue(User("u"), lambda _user, _asked: AccessDecision(True))
    assert _ask(spec, authorizer=asked).refusals == (Refusal("plain"),)


def test_the_authorizer_is_asked_in_the_policy_s_words() -> None:
    asked: list[tuple[str, Attributes]] = []

    def decide(user: User, attributes: Attributes) -> AccessDecision:
        asked.append((user.name, attributes))
        return AccessDecision(False, "because")

    about = Attributes("", "", "*", "pods", namespace="ns", name="x")
    value = AuthorizerValue(User("u"), decide, about)
    spec = _holds(
        "authorizer.group('g').resource('r').subresource('s').namespace('n').name('o').check('get').reason()"
        " == 'because'",
        "!authorizer.serviceAccount('ns', 'sa').path('/p').check('post').allowed()",
        "!authorizer.requestResource.labelSelector('a=b').check('eat').errored()",
        "authorizer.requestResource.check('eat').error() == ''",
    )
    assert _ask(spec, authorizer=value) == PolicyOutcome()
    assert asked == [
        ("u", Attributes("get", "g", "*", "r", "s", "n", "o")),
        ("system:serviceaccount:ns:sa", Attributes("post", path="/p")),
        ("u", Attributes("eat", "", "*", "pods", namespace="ns", name="x")),
        ("u", Attributes("eat", "", "*", "pods", namespace="ns", name="x")),
    ]
    for wrong, why in (
        ("authorizer.serviceAccount('NS', 'sa').path('/p').check('x').allowed()", "account namespace"),
        ("authorizer.serviceAccount('ns', 'S A').path('/p').check('x').allowed()", "account name"),
        ("authorizer.path(' ').check('x').allowed()", "path must not be empty"),
        ("authorizer.group('').resource('').check('x').allowed()", "resource must not be empty"),
    ):
        assert why in _ask(_holds(wrong), authorizer=value).refusals[0].message


_OUTCOMES = {"true": None, "false": "denied", "object.none == 1": "failed"}


@given(
    st.lists(st.sampled_from(sorted(_OUTCOMES)), min_size=1, max_size=4), st.sampled_from(["Fail", "Ignore"])
)
def test_every_validation_is_judged_by_itself(expressions: list[str], policy: str) -> None:
    refusals = _ask(_holds(*expressions, failurePolicy=policy)).refusals
    outcomes = [_OUTCOMES[each] for each in expressions]
    expected = [each for each in outcomes if each == "denied" or (each == "failed" and policy == "Fail")]
    assert ["failed" if "resulted in error" in each.message else "denied" for each in refusals] == expected
