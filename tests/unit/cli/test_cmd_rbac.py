"""Who may get a host's token, as `nodemanager rbac` prints it."""

from __future__ import annotations

from pathlib import Path
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


@pytest.mark.parametrize("name", ["", "*", "Web", "a,b=c"])
def test_what_is_no_name_of_a_lock_group_is_refused(name: str) -> None:
    """Among the names of a rule, an empty one means whatever is asked for without a name."""
    done = cli.run("rbac", "--hostname", "web1", "--lock-group", name)
    assert (done.code, done.stdout) == (2, "")
    assert "cannot be the name of a Lease" in done.stderr


def test_a_token_for_longer_than_a_host_may_ask_for_is_refused(tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.touch()
    done = cli.run("bootstrap", "--bootstrap-kubeconfig", str(short), "--token-ttl", "8761h")
    assert done.code == 2
    assert "8761h is too long; 8760h is the most" in done.stderr
