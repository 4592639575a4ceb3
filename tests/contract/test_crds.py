"""Our CRDs before a real kube-apiserver: installed, explained, accepting and refusing."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.api import crds, kinds
from nodemanager.api.common import managednode
from nodemanager.kube import conditions, manifests
from support import apiserver, cases

NAMESPACE = "crds"
TIME = "2026-01-02T03:04:05Z"
TYPES: dict[str, Any] = {entry.resource.kind: entry.resource.type for entry in kinds.KINDS}
CRD_FILES = Path(__file__).resolve().parents[2] / "config" / "crd"


@pytest.fixture(scope="module", name="cluster")
def _cluster(kube: apiserver.ApiServer) -> apiserver.ApiServer:
    """The API server with our CRDs, installed from the files that people install."""
    kube.kubectl("apply", "-f", str(CRD_FILES))
    names = [f"crd/{crd['metadata']['name']}" for crd in crds.all_crds()]
    kube.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)
    kube.kubectl("create", "namespace", NAMESPACE, check=False)
    deadline = time.monotonic() + 30
    while any(kube.kubectl("explain", kind, check=False).returncode for kind in ("configset", "managednode")):
        assert time.monotonic() < deadline, "the API server does not publish the schemas"
    return kube


@pytest.fixture(autouse=True)
def _clean(cluster: apiserver.ApiServer) -> None:
    everything = ",".join(entry.resource.qualified_name for entry in kinds.KINDS)
    cluster.kubectl("delete", everything, "--all", "-n", NAMESPACE)


def apply(cluster: apiserver.ApiServer, *objects: dict[str, Any]) -> None:
    cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=manifests.dump(objects))


def get(cluster: apiserver.ApiServer, resource: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        cluster.kubectl("get", resource, name, "-n", NAMESPACE, "-o", "json").stdout
    )
    return found


def config_set(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "common.nodemanager/v1",
        "kind": "ConfigSet",
        "metadata": {"name": name},
        "spec": spec,
    }


def managed_node(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "common.nodemanager/v1",
        "kind": "ManagedNode",
        "metadata": {"name": name, **metadata},
    }


def condition(kind: str, status: str, reason: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": TIME,
    }


def patch_status(cluster: apiserver.ApiServer, resource: str, name: str, status: dict[str, Any]) -> None:
    patch = json.dumps({"status": status})
    cluster.kubectl(
        "patch", resource, name, "-n", NAMESPACE, "--subresource=status", "--type=merge", "-p", patch
    )


@pytest.mark.parametrize("name", [crd["metadata"]["name"] for crd in crds.all_crds()])
def test_established_and_structural(cluster: apiserver.ApiServer, name: str) -> None:
    crd = json.loads(cluster.kubectl("get", "crd", name, "-o", "json").stdout)
    found = {each["type"]: each["status"] for each in crd["status"]["conditions"]}
    assert found["Established"] == found["NamesAccepted"] == "True"
    assert "NonStructuralSchema" not in found


def test_installing_again_changes_nothing(cluster: apiserver.ApiServer) -> None:
    lines = cluster.kubectl("apply", "-f", str(CRD_FILES)).stdout.splitlines()
    assert len(lines) == len(crds.all_crds())
    assert all(line.endswith(" unchanged") for line in lines)


@pytest.mark.parametrize("how", [pytest.param([], id="client"), pytest.param(["--server-side"], id="server")])
@pytest.mark.parametrize("path", cases.manifests("accepted"))
def test_accepted(cluster: apiserver.ApiServer, path: Path, how: list[str]) -> None:
    done = cluster.kubectl("apply", "-n", NAMESPACE, *how, "-f", str(path), check=False)
    assert (done.returncode, done.stderr) == (0, "")
    listed = json.loads(cluster.kubectl("get", "-n", NAMESPACE, "-f", str(path), "-o", "json").stdout)
    for obj in listed["items"] if listed["kind"] == "List" else [listed]:
        assert msgspec.convert(obj, TYPES[obj["kind"]]).metadata.generation == 1


@pytest.mark.parametrize("path", cases.manifests("refused"))
def test_refused_with_field_and_fix(cluster: apiserver.ApiServer, path: Path) -> None:
    done = cluster.kubectl("apply", "-n", NAMESPACE, "-f", str(path), check=False)
    assert done.returncode != 0, done.stdout
    for fragment in cases.expected_fragments(path):
        assert fragment in done.stderr


def test_defaults_appear_outside_of_lists_only(cluster: apiserver.ApiServer) -> None:
    spec = {
        "packages": [{"name": "p"}],
        "files": [{"path": "/f", "validate": {"command": "v"}}, {"path": "/g", "ensure": ""}],
        "services": [{"name": "s"}],
        "executions": [{"command": "e", "creates": "/c"}],
    }
    apply(cluster, config_set("defaults", spec))
    assert get(cluster, "cset", "defaults")["spec"] == {"priority": 0, "drift": "repair", **spec}


def test_two_owners_share_one_set(cluster: apiserver.ApiServer) -> None:
    """Lists are maps: server-side apply of two managers merges files by path, packages by name."""
    for manager in ("one", "two"):
        spec = {"files": [{"path": f"/etc/{manager}"}], "packages": [{"name": manager}]}
        cluster.kubectl(
            "apply", "-n", NAMESPACE, "--server-side", f"--field-manager={manager}", "-f", "-",
            stdin=manifests.dump(config_set("shared", spec)),
        )  # fmt: skip
    merged = get(cluster, "cset", "shared")["spec"]
    assert [file["path"] for file in merged["files"]] == ["/etc/one", "/etc/two"]
    assert [package["name"] for package in merged["packages"]] == ["one", "two"]


def titles(kind: str, *, wide: bool = False) -> list[str]:
    """Return what stands above the columns that the registry of kinds names."""
    (entry,) = (each for each in kinds.KINDS if each.resource.kind == kind)
    narrow = [column for column in entry.columns if not column.priority]
    rest = [column for column in entry.columns if column.priority]
    return ["NAME", *(column.name.upper() for column in [*narrow, *(rest if wide else [])])]


def cells(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


def test_columns_of_a_node(cluster: apiserver.ApiServer) -> None:
    apply(
        cluster, managed_node("alpha", labels={"nodemanager.io/os": "debian", "kubernetes.io/arch": "arm64"})
    )
    status = {
        "release": "6.12.1",
        "os": {"id": "debian", "version": "12", "prettyName": "Debian-12", "kernel": "6.12.1"},
        "agentVersion": "1.2.3",
        "drift": {"repaired": 7, "lastTime": None, "lastResource": "file:/etc/motd"},
        "conditions": [condition("Ready", "True", "Applied"), condition("Drifted", "False", "NoDrift")],
    }
    patch_status(cluster, "mn", "alpha", status)
    header, row = cluster.kubectl("get", "mn", "-n", NAMESPACE).stdout.splitlines()
    assert cells(header) == titles("ManagedNode")
    assert {"alpha", "debian", "1.2.3", "True", "False"} <= set(row.split())
    wide, row = cluster.kubectl("get", "mn", "-n", NAMESPACE, "-o", "wide").stdout.splitlines()
    assert cells(wide) == titles("ManagedNode", wide=True)
    assert {"Debian-12", "6.12.1", "Applied", "7", "arm64"} <= set(row.split())


def test_columns_of_a_set_and_the_category(cluster: apiserver.ApiServer) -> None:
    apply(cluster, config_set("clock", {"priority": 5}), managed_node("alpha"))
    counts = {"matched": 4, "applied": 2, "failed": 1, "unknown": 0, "conflicted": 1}
    patch_status(cluster, "cset", "clock", {"nodes": counts})
    header, row = cluster.kubectl("get", "cset", "-n", NAMESPACE).stdout.splitlines()
    assert cells(header) == titles("ConfigSet")
    assert cells(row)[:5] == ["clock", "4", "2", "1", "0"]
    everything = cluster.kubectl("get", "nodemanager", "-n", NAMESPACE, "-o", "name").stdout.split()
    assert everything == ["configset.common.nodemanager/clock", "managednode.common.nodemanager/alpha"]


def test_short_names(cluster: apiserver.ApiServer) -> None:
    listed = cluster.kubectl("api-resources", "--api-group=common.nodemanager", "--no-headers").stdout
    names = {line.split()[0]: line.split()[1].split(",") for line in listed.splitlines()}
    assert names == {
        "configsets": ["cs", "cset"], "managednodes": ["mn"], "configsetrevisions": ["csrev"],
        "configsetpreviews": ["cspreview"], "rolloutpolicies": ["rp"],
    }  # fmt: skip


def test_the_status_of_a_go_agent_is_stored(cluster: apiserver.ApiServer) -> None:
    apply(cluster, managed_node("beta"))
    status: dict[str, Any] = {
        "interfaces": {"eth0": {"ipv4": ["192.0.2.7"]}},
        "configsets": [
            {"name": "a", "lastApplied": None, "conflicts": ["x"]},
            {"name": "b", "error": "boom"},
        ],
        "sshHostKeys": [{"algorithm": 4, "fingerprintType": 2, "fingerprint": "ab12"}],
        "wireGuard": [{"name": "wg0", "publicKey": "a2V5"}],
        "fileBackups": {"/etc/motd": "00ff"},
        "lastFileBucketGC": "2026-01-02T03:04:05Z",
        "jailed": False,
    }
    # Not a merge patch, which would take the null for a deletion.
    operation = json.dumps([{"op": "add", "path": "/status", "value": status}])
    cluster.kubectl(
        "patch", "mn", "beta", "-n", NAMESPACE, "--subresource=status", "--type=json", "-p", operation
    )
    stored = get(cluster, "mn", "beta")
    assert stored["status"] == status
    assert msgspec.convert(stored, managednode.ManagedNode).status.configsets[0].last_applied is None


def test_typed_status_is_admitted_whole(cluster: apiserver.ApiServer) -> None:
    """What our types write, with everything at its default, satisfies what the schema requires."""
    apply(cluster, managed_node("gamma"))
    typed = managednode.ManagedNodeStatus(
        conditions=conditions.set_condition([], conditions.Condition(type="Ready", reason="Applying"), TIME),
        drift=managednode.Drift(),
        heartbeat=managednode.Heartbeat(lease_name="gamma"),
        configsets=[managednode.AppliedConfigSet(name="a")],
        ssh_host_keys=[managednode.SSHHostKey()],
        wire_guard=[managednode.WireGuardStatus(name="wg0")],
        interfaces={"eth0": managednode.Interface()},
    )
    patch_status(cluster, "mn", "gamma", msgspec.to_builtins(typed))
    assert msgspec.convert(get(cluster, "mn", "gamma"), managednode.ManagedNode).status == typed


@pytest.mark.parametrize(
    ("field", "says"),
    [
        pytest.param(
            "configset.spec", ["nodeSelector", "Default 0", "Files, directories and links."], id="spec"
        ),
        pytest.param(
            "configset.spec.files",
            [
                "such as /etc/motd",
                '"0644"',
                "-required-",
                "gotemplate, jinja",
                "Empty means file",
                "validate",
            ],
            id="files",
        ),
        pytest.param(
            "configset.spec.files.validate", ["${STAGED}", "Default 30", "rollback (default)"], id="validate"
        ),
        pytest.param(
            "configset.spec.services", ["subscribe_files", "lock_group", "left alone"], id="services"
        ),
        pytest.param("managednode.spec.upgrade", ['"30 3 * * 0"', "one at a time"], id="upgrade"),
        pytest.param("managednode.status", ["lastFileBucketGC", "uname -r", "SSHFP"], id="status"),
    ],
)
def test_explain_says_what_people_ask(cluster: apiserver.ApiServer, field: str, says: list[str]) -> None:
    text = " ".join(cluster.kubectl("explain", field).stdout.split())
    assert [each for each in says if each not in text] == []


def test_a_large_set_is_admitted(cluster: apiserver.ApiServer) -> None:
    """The bounds that CEL needs do not stand in the way of a manifest that etcd takes."""
    files = [{"path": f"/srv/data/{number:05d}/{'d' * 200}", "content": "x" * 100} for number in range(3000)]
    cluster.kubectl(
        "create", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(config_set("large", {"files": files}))
    )
    assert len(get(cluster, "cset", "large")["spec"]["files"]) == 3000
