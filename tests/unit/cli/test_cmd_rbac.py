"""Who may get a host's token, as `nodemanager rbac` prints it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from support import cli


def subjects(*args: str) -> list[dict[str, str]]:
    """Return who may get the token of host n1."""
    ran = cli.run("rbac", "--hostname", "n1", *args)
    assert ran.code == 0, ran.stderr
    objects: list[dict[str, Any]] = list(yaml.safe_load_all(ran.stdout))
    (found,) = [
        one["subjects"] for one in objects
        if (one["kind"], one["metadata"]["name"]) == ("RoleBinding", "nodemanager-n1-token-refresh")
    ]  # fmt: skip
    return list(found)


def account(name: str, namespace: str) -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


HOST = account("nodemanager-n1", "nodemanager")


@pytest.mark.parametrize(
    ("args", "more"),
    [
        ([], []),
        (["--daemonset"], [account("nodemanager-daemonset", "nodemanager-agents")]),
        (["--daemonset", "--kubernetes-node"], [account("nodemanager-daemonset", "nodemanager-agents")]),
        (["--daemonset=agents"], [account("nodemanager-daemonset", "agents")]),
    ],
)
def test_the_pod_on_a_host_may_get_its_token_only_if_told_so(
    args: list[str], more: list[dict[str, str]]
) -> None:
    assert subjects(*args) == [HOST, *more]


@pytest.mark.parametrize("name", ["operator", "daemonset"])
def test_no_host_has_the_account_of_our_own_pods(name: str) -> None:
    ran = cli.run("rbac", "--hostname", name)
    assert ran.code != 0
    assert f"'{name}' is the name of the {name}'s own ServiceAccount" in ran.stderr


def test_only_our_own_namespace_is_closed_to_pods_with_rights() -> None:
    """Somebody who puts hosts into a namespace of theirs has pods there that we know nothing about."""
    for name, labelled in (("nodemanager", True), ("kube-system", False)):
        first = next(yaml.safe_load_all(cli.run("rbac", "--hostname", "n1", "-n", name).stdout))
        assert (first["kind"], first["metadata"]["name"]) == ("Namespace", name)
        assert ("labels" in first["metadata"]) is labelled
