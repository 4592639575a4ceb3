"""kubectl against the embedded server, where kube-apiserver alone would not do: it has no controllers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import either


def test_a_namespace_ends_with_all_that_is_in_it(own_server: Path, tmp_path: Path, caches: Path) -> None:
    place = either.prepared(own_server, tmp_path, caches / "embedded")
    place.kubectl("create", "configmap", "c")
    gone = place.kubectl("delete", "namespace", place.namespace, "--timeout=20s")
    assert gone == f'namespace "{place.namespace}" deleted\n'
    assert "NotFound" in place.refused("get", "namespace", place.namespace)


@either.kubectl_since(24, "waiting for the deletion of what is gone")
@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_deletions_that_cascade(own_server: Path, tmp_path: Path, caches: Path, cascade: str) -> None:
    place = either.prepared(own_server, tmp_path, caches / "embedded")
    place.kubectl("create", "configmap", "owner")
    uid = place.kubectl("get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")
    place.kubectl("create", "configmap", "owned")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "blockOwnerDeletion": True}
    place.kubectl("patch", "configmap", "owned", "-p", json.dumps({"metadata": {"ownerReferences": [owner]}}))
    deleted = place.kubectl("delete", "configmap", "owner", f"--cascade={cascade}", "--timeout=20s")
    assert deleted.startswith('configmap "owner" deleted')
    if cascade == "orphan":
        owners = "jsonpath={.metadata.ownerReferences}"
        assert place.kubectl("get", "configmap", "owned", "-o", owners) == ""
    else:
        place.kubectl("wait", "--for=delete", "configmap/owned", "--timeout=20s")
    assert 'configmaps "owner" not found' in place.refused("get", "configmap", "owner")


def test_kinds_that_are_not_served_are_refused_by_name(
    own_server: Path, tmp_path: Path, caches: Path
) -> None:
    place = either.prepared(own_server, tmp_path, caches / "embedded")
    for kind in ("deployments", "services"):
        assert place.refused("get", kind) == f'error: the server doesn\'t have a resource type "{kind}"\n'
