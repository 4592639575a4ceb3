"""Whether users are stamped: told from the policy and its binding, as a server has them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from nodemanager.api.rights import stamp_policy, stamping_state

POLICY, BINDING = stamp_policy.stamping()


def changed(obj: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {**obj, "spec": {**obj["spec"], **spec}}


def defaulted() -> dict[str, Any]:
    found = copy.deepcopy(POLICY)
    found["spec"]["matchConstraints"] |= {"matchPolicy": "Equivalent", "objectSelector": {}}
    for rule in found["spec"]["matchConstraints"]["resourceRules"]:
        rule["scope"] = "*"
    return found


def test_defaults_of_the_server_change_nothing() -> None:
    state = stamping_state.judge(defaulted(), BINDING, served=True)
    assert (state.in_force, state.reason) == (True, stamping_state.STAMPED)


@pytest.mark.parametrize(
    ("policy", "binding", "served", "reason"),
    [
        pytest.param(None, None, False, stamping_state.NOT_SERVED, id="old server"),
        pytest.param(None, None, True, stamping_state.NOT_INSTALLED, id="not installed"),
        pytest.param(POLICY, None, True, stamping_state.NOT_BOUND, id="not bound"),
        pytest.param(
            changed(POLICY, variables=[]), BINDING, True, stamping_state.CHANGED, id="other variables"
        ),
        pytest.param(
            changed(POLICY, failurePolicy="Ignore"), BINDING, True, stamping_state.CHANGED, id="fails open"
        ),
        pytest.param(
            POLICY,
            changed(BINDING, matchResources={"objectSelector": {"matchLabels": {"a": "b"}}}),
            True,
            stamping_state.CHANGED,
            id="narrowed",
        ),
        pytest.param(
            POLICY, changed(BINDING, policyName="other"), True, stamping_state.CHANGED, id="other policy"
        ),
    ],
)
def test_absence_is_said_with_what_to_do(policy: Any, binding: Any, served: bool, reason: str) -> None:
    state = stamping_state.judge(policy, binding, served=served)
    assert (state.in_force, state.reason) == (False, reason)
    assert "field manager" in state.message
    assert "crds --install" in state.message or not served
