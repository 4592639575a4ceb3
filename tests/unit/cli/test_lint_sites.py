"""`nodemanager lint` of edge sites: what admission refuses, and what it cannot know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nodemanager.kube import manifests
from nodemanager.kube.objects import Untyped
from support import cli, edge_profiles

TRUST = {"keys": [edge_profiles.public_key()]}


def cluster(**spec: Any) -> Untyped:
    return {
        "apiVersion": "edge.nodemanager/v1alpha1", "kind": "EdgeCluster", "metadata": {"name": "site"},
        "spec": {"profile": "vx-rail", **spec},
    }  # fmt: skip


def lint(folder: Path, *objects: Untyped) -> list[tuple[str, str, str]]:
    (folder / "all.yaml").write_text(manifests.dump(list(objects)))
    ran = cli.run("lint", "-f", str(folder), "-o", "json")
    return [(one["rule"], one["severity"], one["message"]) for one in json.loads(ran.stdout)]


def test_what_is_right_says_nothing(tmp_path: Path) -> None:
    signed = edge_profiles.signed(edge_profiles.shipped("vx-rail"))
    assert lint(tmp_path, signed, cluster(nodes=["a", "b"], signature={"policy": "require", **TRUST})) == []


@pytest.mark.parametrize(
    ("spec", "rule", "severity", "said"),
    [
        ({"profile": "other"}, "missing-reference", "warning", "nothing here declares EdgeProfile other"),
        ({"nodes": ["a", "b", "c"]}, "site", "error", "there are 3 nodes, and EdgeProfile vx-rail has 2"),
        ({"signature": {"policy": "require", **TRUST}}, "site", "error", "not be trusted: it is not signed"),
        ({"signature": {"policy": "warn", **TRUST}}, "site", "warning", "not be trusted: it is not signed"),
        ({"signature": {"policy": "require"}}, "schema", "error", "must have a key where a signature is"),
        ({"profile": ""}, "schema", "error", ""),
    ],
)
def test_what_is_wrong_with_a_site(
    tmp_path: Path, spec: dict[str, Any], rule: str, severity: str, said: str
) -> None:
    ((found, how, message),) = lint(tmp_path, edge_profiles.shipped("vx-rail"), cluster(**spec))
    assert (found, how) == (rule, severity)
    assert said in message


def test_a_workflow_that_is_impossible_is_named(tmp_path: Path) -> None:
    wrong = edge_profiles.shipped("ubuntu-local-path", patch={"workflows": ["VolumeMigration"]})
    ((rule, severity, message),) = lint(tmp_path, wrong)
    assert (rule, severity) == ("schema", "error")
    assert "VolumeMigration needs Clone and RWX and Snapshot of the storage backend" in message
