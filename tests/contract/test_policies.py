"""Admission policies: a table of them with requests, on the embedded server and on kube-apiserver."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from support import policy_server
from support.policy_cases import CASES
from support.policy_server import Server
from support.policy_table import Case

pytestmark = pytest.mark.xdist_group("policies")  # one server for all of them
BOTH = ["embedded", pytest.param("kube-apiserver", marks=pytest.mark.xdist_group("apiserver"))]


@pytest.fixture(scope="module", params=BOTH)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on which the policies of all cases are in force."""
    with contextlib.ExitStack() as stack:
        if request.param == "embedded":
            api = stack.enter_context(policy_server.embedded(tmp_path_factory.mktemp("embedded")))
        else:
            kube = request.getfixturevalue("kube")
            api = stack.enter_context(contextlib.closing(Server(kube.kubeconfig)))
        try:
            api.install(CASES)
            yield api
        finally:
            api.clean()


def test_every_case_has_a_name_of_its_own() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names) >= 80


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_a_policy_says(server: Server, case: Case) -> None:
    answer = server.carry_out(case)
    assert answer.code == case.code, answer
    texts = [text.removeprefix('299 - "').removesuffix('"') for text in answer.warnings]
    assert texts == server.filled(case, list(case.warnings))
    if not case.says:
        return
    says, name = server.filled(case, case.says), server.name(case)
    denial = f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: {says}"
    about = server.filled(case, case.about)
    full = says[1:] if says.startswith("!") else f"{about} is forbidden: {denial}"
    assert answer.body["message"] == full
    if " is forbidden: " in full:
        resource, _, quoted = full.partition(" is forbidden: ")[0].partition(" ")
        plural, _, group = resource.partition(".")
        details = {"name": quoted.strip('"'), "group": group, "kind": plural}
        causes = [{"message": full.partition(" is forbidden: ")[2]}]
        assert answer.body["details"] == {**{k: v for k, v in details.items() if v}, "causes": causes}
        assert (answer.body["reason"], answer.body["code"]) == (case.reason, case.code)
