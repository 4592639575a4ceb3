"""Random match rules and random requests: both servers find the same policies to be about them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import pytest

from support import policy_server, random_policies
from support.apiserver import ApiServer
from support.policy_server import BINDINGS, POLICIES, Server

COUNT = 40
REQUESTS = 150


@pytest.fixture
def both(kube: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """The embedded server, and its judge; what either is told has the same names."""
    with (
        policy_server.embedded(tmp_path_factory.mktemp("embedded")) as ours,
        contextlib.closing(Server(kube.kubeconfig)) as theirs,
    ):
        ours.run = theirs.run
        try:
            yield ours, theirs
        finally:
            theirs.clean()


def _furnish(server: Server, dice: random.Random) -> str:
    server.install([])
    namespace = f"{server.run}-random"
    server.make("/api/v1/namespaces", {"metadata": {"name": namespace, "labels": {"team": "red"}}})
    role = {"metadata": {"name": f"{namespace}-role", "labels": random_policies.labels(dice)}}
    server.make("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    for name in random_policies.NAMES:
        body = {"metadata": {"name": name, "labels": random_policies.labels(dice)}}
        for plural in ("configmaps", "serviceaccounts"):
            server.make(f"/api/v1/namespaces/{namespace}/{plural}", body)
        thing = {"apiVersion": "policies.test/v1", "kind": "Thing", **body}
        server.make(f"/apis/policies.test/v1/namespaces/{namespace}/things", thing)
    for number in range(COUNT):
        name = f"{server.run}-{number}"
        spec = {
            "matchConstraints": random_policies.constraints(dice),
            "validations": [{"expression": "false"}],
        }
        server.make(POLICIES, {"metadata": {"name": name}, "spec": spec})
        bound = {"policyName": name, "validationActions": ["Warn"]}
        server.make(BINDINGS, {"metadata": {"name": name}, "spec": bound})
    server.wait_in_force("last")
    return namespace


@pytest.mark.parametrize("seed", range(3))
def test_the_same_policies_match(both: tuple[Server, Server], seed: int) -> None:
    for server in both:
        namespace = _furnish(server, random.Random(seed))
    dice, matched = random.Random(seed + 1000), 0
    for _ in range(REQUESTS):
        request = random_policies.request(dice, namespace)
        ours, theirs = (server.ask(*request) for server in both)
        assert ours.code == theirs.code, (request, ours.body, theirs.body)
        assert sorted(ours.warnings) == sorted(theirs.warnings), request
        matched += len(ours.warnings)
    assert REQUESTS < matched < REQUESTS * COUNT / 2  # it found some, and not everything
