"""kubectl against the embedded server, where kube-apiserver alone would not do: it has no controllers."""

from __future__ import annotations

from pathlib import Path

from support import either


def test_a_namespace_ends_with_all_that_is_in_it(own_server: Path, tmp_path: Path, caches: Path) -> None:
    place = either.prepared(own_server, tmp_path, caches / "embedded")
    place.kubectl("create", "configmap", "c")
    gone = place.kubectl("delete", "namespace", place.namespace, "--timeout=20s")
    assert gone == f'namespace "{place.namespace}" deleted\n'
    assert "NotFound" in place.refused("get", "namespace", place.namespace)


def test_deletions_that_need_a_garbage_collector_are_refused(
    own_server: Path, tmp_path: Path, caches: Path
) -> None:
    place = either.prepared(own_server, tmp_path, caches / "embedded")
    place.kubectl("create", "configmap", "c")
    for policy, name in (("orphan", "Orphan"), ("foreground", "Foreground")):
        refusal = place.refused("delete", "configmap", "c", f"--cascade={policy}")
        assert f"propagationPolicy {name} is not served" in refusal


def test_kinds_that_are_not_served_are_refused_by_name(
    own_server: Path, tmp_path: Path, caches: Path
) -> None:
    place = either.prepared(own_server, tmp_path, caches / "embedded")
    for kind in ("deployments", "services"):
        assert place.refused("get", kind) == f'error: the server doesn\'t have a resource type "{kind}"\n'
