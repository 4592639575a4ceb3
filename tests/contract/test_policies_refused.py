"""Policies and bindings that are wrong: refused as kube-apiserver refuses them, text by text."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from support import policy_server
from support.apiserver import ApiServer
from support.policy_faults_table import BINDINGS, POLICIES
from support.policy_server import Server

KINDS = {policy_server.POLICIES: POLICIES, policy_server.BINDINGS: BINDINGS}
_SYNTAX = re.compile(r"Syntax error: .*?(?=\\n)")
CASES = [(path, name) for path, table in KINDS.items() for name in table]


@pytest.fixture(scope="module")
def both(kube: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """The embedded server, and its judge."""
    with (
        policy_server.embedded(tmp_path_factory.mktemp("embedded")) as ours,
        contextlib.closing(Server(kube.kubeconfig)) as theirs,
    ):
        yield ours, theirs


def _answer(server: Server, path: str, spec: Any) -> dict[str, Any]:
    answer = server.ask("POST", f"{path}?dryRun=All", {"metadata": {"name": "refused.test"}, "spec": spec})
    body = answer.body
    if answer.code == 201:
        return {"spec": body["spec"], "warnings": answer.warnings}
    refusal = {key: body.get(key) for key in ("message", "reason", "code", "details")}
    # What a parser expected instead is its own affair; where it stopped is not.
    return dict(json.loads(_SYNTAX.sub("Syntax error: ...", json.dumps(refusal))))


@pytest.mark.parametrize(
    ("path", "name"), CASES, ids=[f"{path.rpartition('/')[2]}-{name}" for path, name in CASES]
)
def test_both_servers_say_the_same(both: tuple[Server, Server], path: str, name: str) -> None:
    ours, theirs = (_answer(server, path, KINDS[path][name]) for server in both)
    assert ours == theirs
