"""ConfigSet and ManagedNode: the names on the wire, and what must still decode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.api import crds, kinds
from nodemanager.api.common import configset, declarations, managednode, node_conditions
from nodemanager.api.maintenance import realtime_set
from nodemanager.kube import manifests, selectors
from nodemanager.kube.objects import Resource
from support import cases

KINDS: dict[str, Resource[Any]] = {entry.resource.kind: entry.resource for entry in kinds.KINDS}
SCHEMAS = {
    crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for crd in crds.all_crds()
}

GO_SPEC_FIELDS = {
    "ConfigSet": """
        packages[].name packages[].ensure packages[].version
        files[].path files[].ensure files[].content files[].template files[].owner files[].group files[].mode
        files[].target files[].secretRefs[] files[].configMapRefs[] files[].createOnly files[].purge
        services[].name services[].ensure services[].enable services[].arguments services[].user
        services[].subscribe_files[] services[].lock_group
        executions[].command executions[].args[] executions[].subscribe_files[]
        notifies[].apiVersion notifies[].kind notifies[].name notifies[].namespace
    """,
    "ManagedNode": """
        domain reconcilePeriod upgrade.group upgrade.schedule upgrade.delay
        wireGuard.enabled wireGuard.interface
    """,
}
GO_NODE_STATUS: dict[str, Any] = {
    "agentVersion": "v0.10.0",
    "release": "6.12.1-arch1-1",
    "interfaces": {"eth0": {"ipv4": ["192.0.2.7"], "ipv6": ["2001:db8::7"]}, "wg0": {"ipv4": ["10.0.0.1"]}},
    "configsets": [
        {"name": "clock", "resourceVersion": "71", "lastApplied": "2026-01-02T03:04:05Z"},
        {
            "name": "motd",
            "lastApplied": None,
            "error": "boom",
            "conflicts": ['file:/etc/motd (also in configset "base")'],
        },
    ],
    "sshHostKeys": [{"algorithm": 4, "fingerprintType": 2, "fingerprint": "ab12"}],
    "wireGuard": [{"name": "wg0", "publicKey": "a2V5", "listenPort": 51820}],
    "fileBackups": {"/etc/motd": "00ff"},
    "lastFileBucketGC": "2026-01-02T03:04:05Z",
    "lastUpgrade": "2026-01-02T03:04:05Z",
    "kubernetesNodeCordoned": None,
    "jailed": True,
}


def fields_of(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of every leaf, with [] for each list."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from fields_of(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            yield from fields_of(inner, f"{path}[]")
    else:
        yield path


def unknown_fields(value: Any, schema: dict[str, Any], path: str) -> Iterator[str]:
    """Yield what a structural schema does not declare."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return  # whatever is in there is declared
    if isinstance(value, list):
        for inner in value:
            yield from unknown_fields(inner, schema["items"], f"{path}[]")
    elif isinstance(value, dict) and "additionalProperties" not in schema:
        for key, inner in value.items():
            if key not in schema["properties"]:
                yield f"{path}.{key}"
            elif key != "metadata":
                yield from unknown_fields(inner, schema["properties"][key], f"{path}.{key}")


def load(path: Path) -> list[dict[str, Any]]:
    return manifests.load_all(path.read_text(encoding="utf-8"), path.name)


@pytest.mark.parametrize("path", [*cases.manifests("accepted"), *cases.manifests("made_by_operator")])
def test_accepted_manifests_decode_without_loss(path: Path) -> None:
    for obj in load(path):
        kind = KINDS[obj["kind"]]
        assert list(unknown_fields(obj, SCHEMAS[obj["kind"]], obj["kind"])) == []
        typed = msgspec.convert(obj, kind.type)
        again = msgspec.convert(msgspec.json.decode(kind.encode(typed)), kind.type)
        assert again == typed
        assert typed.metadata.name == obj["metadata"]["name"]


@pytest.mark.parametrize("path", cases.manifests("refused"))
def test_refused_manifests_are_cases_of_one_mistake_each(path: Path) -> None:
    (obj,) = load(path)
    unknown = list(unknown_fields(obj, SCHEMAS[obj["kind"]], obj["kind"]))
    expected = cases.expected_fragments(path)
    assert bool(unknown) == expected[0].startswith("unknown field"), unknown


@pytest.mark.parametrize("kind", ["ConfigSet", "ManagedNode"])
def test_the_accepted_manifests_use_every_field_of_the_go_project(kind: str) -> None:
    used: set[str] = set()
    for path in sorted((cases.MANIFESTS / "accepted").glob("go-*.yaml")):
        for obj in load(path):
            if obj["kind"] == kind:
                used.update(fields_of(obj.get("spec", {})))
    assert used == set(GO_SPEC_FIELDS[kind].split())


def test_the_status_of_a_go_agent_is_read_whole() -> None:
    assert list(unknown_fields({"status": GO_NODE_STATUS}, SCHEMAS["ManagedNode"], "")) == []
    status = msgspec.convert({"status": GO_NODE_STATUS}, managednode.ManagedNode).status
    assert status.configsets[1].last_applied is None
    assert status.configsets[1].conflicts == ['file:/etc/motd (also in configset "base")']
    assert status.interfaces["eth0"].ipv6 == ["2001:db8::7"]
    assert status.last_file_bucket_gc == "2026-01-02T03:04:05Z"
    assert status.wire_guard[0].listen_port == 51820
    assert status.ssh_host_keys[0].fingerprint_type == 2
    assert status.kubernetes_node_cordoned is None
    written = msgspec.to_builtins(status)
    assert written.keys() == GO_NODE_STATUS.keys() - {"kubernetesNodeCordoned"}


def test_what_another_version_admitted_still_decodes() -> None:
    spec = {
        "files": [{"path": "relative", "ensure": "fifo", "mode": "644", "inFuture": {"a": 1}}],
        "services": [{"name": "x", "ensure": "paused"}],
        "executions": [{"command": "x", "timeout": "1 fortnight"}],
        "nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]},
        "priority": 2**40,
        "sysctls": [{"name": "vm.swappiness"}],
    }
    read = msgspec.convert(
        {"metadata": {"name": "x", "managedFields": []}, "spec": spec}, configset.ConfigSet
    ).spec
    assert (read.files[0].ensure, read.files[0].mode) == ("fifo", "644")
    assert read.executions[0].timeout == "1 fortnight"
    assert read.priority == 2**40
    assert read.node_selector is not None
    assert not selectors.matches(read.node_selector, {"a": "b"})


@pytest.mark.parametrize(
    ("given", "enable"),
    [
        pytest.param({}, None, id="omitted-leaves-alone"),
        pytest.param({"enable": False}, False, id="false-disables"),
        pytest.param({"enable": True}, True, id="true-enables"),
    ],
)
def test_enable_has_three_states_both_ways(given: dict[str, Any], enable: bool | None) -> None:
    service = msgspec.convert({"name": "nginx", **given}, declarations.Service)
    assert service.enable is enable
    assert msgspec.to_builtins(service) == {"name": "nginx", **given}


def test_what_is_left_out_means_what_the_documentation_says() -> None:
    node = msgspec.convert({}, managednode.ManagedNode)
    assert (node.spec.upgrade, node.spec.wire_guard, node.status.drift) == (None, None, None)
    read = msgspec.convert(
        {"files": [{"path": "/x", "validate": {"command": "v"}}], "packages": [{"name": "p"}]},
        configset.ConfigSetSpec,
    )
    validate = read.files[0].validate
    assert validate is not None
    assert (validate.timeout_seconds, validate.on_failure) == (30, "rollback")
    assert (read.files[0].ensure, read.files[0].engine, read.packages[0].ensure) == (
        "file",
        "gotemplate",
        "installed",
    )
    assert (read.priority, read.node_selector) == (0, None)


def test_counters_are_written_when_they_are_zero() -> None:
    status = configset.ConfigSetStatus(nodes=configset.NodeCounts(matched=2))
    assert msgspec.to_builtins(status)["nodes"] == {
        "matched": 2,
        "applied": 0,
        "failed": 0,
        "unknown": 0,
        "held": 0,
        "conflicted": 0,
    }
    assert msgspec.to_builtins(managednode.Drift())["repaired"] == 0


def test_operations_of_type_realtime_declare_every_kind_that_a_config_set_does() -> None:
    lists = set(realtime_set.RealtimeSet.__struct_fields__) - {"priority"}
    declared = set(configset.ConfigSetSpec.__struct_fields__) - configset.SETTINGS
    assert set(realtime_set.LISTS) == lists == declared


def test_conditions_of_a_node_have_distinct_reasons() -> None:
    reasons = [
        node_conditions.APPLIED, node_conditions.APPLY_FAILED, node_conditions.VALIDATION_FAILED,
        node_conditions.AGENT_SILENT, node_conditions.NO_DRIFT, node_conditions.NOT_REPAIRED,
        node_conditions.CONTESTED,
        node_conditions.RESOURCE_CONFLICT, node_conditions.NO_CONFLICT,
    ]  # fmt: skip
    assert len(set(reasons)) == len(reasons)
