"""kubectl writes, reads, watches and deletes objects: the same on the embedded server and kube-apiserver."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support import scripts
from support.either import Place, kubectl_minor, kubectl_since

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def config_set(content: str = "x\n", **more: Any) -> str:
    files = [{"path": "/etc/chrony.conf", "content": content}]
    return json.dumps(
        {
            "apiVersion": "common.nodemanager/v1",
            "kind": "ConfigSet",
            "metadata": {"name": "clock", "labels": {"role": "web"}},
            "spec": {"packages": [{"name": "chrony"}], "files": files, **more},
        }
    )


def node(**labels: str) -> str:
    meta = {"name": "h1", "labels": labels}
    return json.dumps(
        {"apiVersion": "common.nodemanager/v1", "kind": "ManagedNode", "metadata": meta, "spec": {}}
    )


def apply(place: Place, manifest: str, *args: str) -> str:
    return place.kubectl("apply", "-f", "-", *args, stdin=manifest)


def managers(place: Place, *what: str) -> set[tuple[str, str]]:
    shown = place.shown(*what, "--show-managed-fields")
    return {(entry["manager"], entry["operation"]) for entry in shown["metadata"]["managedFields"]}


def test_create_and_create_again(place: Place) -> None:
    made = place.kubectl("create", "-f", "-", stdin=config_set())
    assert made == "configset.common.nodemanager/clock created\n"
    again = place.refused("create", "-f", "-", stdin=config_set())
    assert again == (
        'Error from server (AlreadyExists): error when creating "STDIN": '
        'configsets.common.nodemanager "clock" already exists\n'
    )


def test_apply_creates_leaves_and_configures(place: Place) -> None:
    assert apply(place, node(a="b")) == "managednode.common.nodemanager/h1 created\n"
    assert apply(place, node(a="b")) == "managednode.common.nodemanager/h1 unchanged\n"
    assert apply(place, config_set()) == "configset.common.nodemanager/clock created\n"
    assert apply(place, config_set("y\n")) == "configset.common.nodemanager/clock configured\n"
    shown = place.shown("configset", "clock")
    assert shown["spec"]["files"][0]["content"] == "y\n"
    assert json.loads(shown["metadata"]["annotations"][LAST_APPLIED])["spec"]["packages"] == [
        {"name": "chrony"}
    ]
    assert shown["metadata"]["generation"] == 2


def test_apply_takes_away_what_is_no_longer_applied(place: Place) -> None:
    apply(place, config_set(priority=7))
    apply(place, config_set())
    assert place.shown("configset", "clock")["spec"]["priority"] == 0  # the schema's default


@kubectl_since(21, "--show-managed-fields")
def test_server_side_apply_and_its_conflicts(place: Place) -> None:
    side = ("--server-side", "--field-manager")
    applied = apply(place, config_set(), *side, "one")
    assert applied == "configset.common.nodemanager/clock serverside-applied\n"
    apply(place, config_set(), *side, "two")
    conflict = place.refused("apply", "-f", "-", *side, "two", stdin=config_set("y\n"))
    assert conflict.startswith(
        'error: Apply failed with 1 conflict: conflict with "one": '
        '.spec.files[path="/etc/chrony.conf"].content\n'
    )
    apply(place, config_set("y\n"), *side, "two", "--force-conflicts")
    managed = place.shown("configset", "clock", "--show-managed-fields")["metadata"]["managedFields"]
    owners = {
        entry["manager"]: 'f:content' in json.dumps(entry["fieldsV1"])
        for entry in managed
        if entry["operation"] == "Apply"
    }  # fmt: skip
    assert owners == {"one": False, "two": True}


@kubectl_since(21, "--show-managed-fields")
def test_server_side_apply_after_client_side_apply(place: Place) -> None:
    apply(place, config_set())
    apply(place, config_set("y\n"), "--server-side")
    assert managers(place, "configset", "clock") == {("kubectl-last-applied", "Apply"), ("kubectl", "Apply")}


def test_diff_says_whether_anything_would_change(place: Place) -> None:
    new = place.run("diff", "-f", "-", stdin=config_set())
    assert (new.returncode, new.stderr) == (1, "")
    assert "+kind: ConfigSet" in new.stdout
    apply(place, config_set())
    same = place.run("diff", "-f", "-", stdin=config_set())
    assert (same.returncode, same.stdout, same.stderr) == (0, "", "")
    for side in ((), ("--server-side", "--force-conflicts")):
        other = place.run("diff", "-f", "-", *side, stdin=config_set("y\n"))
        changes = [line.split() for line in other.stdout.splitlines() if line[:2] in ("+ ", "- ")]
        assert other.returncode == 1
        assert {("-", "x"), ("+", "y")} <= {tuple(words) for words in changes}


def test_diff_of_what_is_refused(place: Place) -> None:
    wrong = place.run("diff", "-f", "-", stdin=config_set(priority="x"))
    assert wrong.returncode > 1
    assert "spec.priority: Invalid value" in wrong.stderr


@kubectl_since(25, "validation by the server")
def test_edit(place: Place, tmp_path: Path) -> None:
    apply(place, config_set())
    editor = scripts.write(tmp_path / "editor", "sed -i 's/role: web/role: db/' \"$1\"")
    edited = place.kubectl("edit", "configset", "clock", KUBE_EDITOR=editor)
    assert edited == "configset.common.nodemanager/clock edited\n"
    assert place.shown("configset", "clock")["metadata"]["labels"] == {"role": "db"}
    untouched = place.run("edit", "configset", "clock", KUBE_EDITOR="true")
    assert "Edit cancelled, no changes made." in untouched.stdout + untouched.stderr
    spoil = scripts.write(tmp_path / "spoil", f'tee {tmp_path}/seen < "$1"; sed -i \'s/y: 0/y: x/\' "$1"')
    spoilt = place.refused("edit", "configset", "clock", KUBE_EDITOR=spoil)
    assert spoilt.startswith('error: configsets.common.nodemanager "clock" is invalid\n')
    # The editor was opened a second time, with the server's reason on top.
    assert "# * spec.priority: Invalid value" in (tmp_path / "seen").read_text()


def test_patches_of_a_custom_resource(place: Place) -> None:
    apply(place, config_set())
    patch = ("patch", "configset", "clock")
    merge = (*patch, "--type=merge", "-p", '{"spec":{"priority":5}}')
    assert place.kubectl(*merge) == "configset.common.nodemanager/clock patched\n"
    assert place.kubectl(*merge) == "configset.common.nodemanager/clock patched (no change)\n"
    place.kubectl(*patch, "--type=json", "-p", '[{"op":"replace","path":"/spec/priority","value":6}]')
    assert place.shown("configset", "clock")["spec"]["priority"] == 6
    strategic = place.refused(*patch, "--type=strategic", "-p", '{"spec":{"priority":7}}')
    said = "is not supported by " if kubectl_minor() >= 21 else "in an unknown format"
    assert said in strategic
    wrong = place.refused(*patch, "--type=merge", "-p", '{"spec":{"priority":"x"}}')
    assert wrong.splitlines()[:2] == [
        'The ConfigSet "clock" is invalid: ',
        '* spec.priority: Invalid value: "string": spec.priority in body must be of type integer: "string"',
    ]
    test = place.refused(*patch, "--type=json", "-p", '[{"op":"test","path":"/spec/priority","value":9}]')
    why = "" if kubectl_minor() < 21 else ": the server rejected our request due to an error in our request"
    assert test == f"The request is invalid{why}\n"


def test_patches_of_a_built_in_kind(place: Place) -> None:
    place.kubectl("create", "configmap", "c", "--from-literal=a=b")
    patch = ("patch", "configmap", "c")
    place.kubectl(*patch, "-p", '{"data":{"z":"1"}}')  # strategic
    place.kubectl(*patch, "--type=merge", "-p", '{"data":{"a":null}}')
    place.kubectl(*patch, "--type=json", "-p", '[{"op":"add","path":"/data/y","value":"2"}]')
    assert place.shown("configmap", "c")["data"] == {"y": "2", "z": "1"}
    place.kubectl(*patch, "-p", '{"immutable":true}')
    assert place.refused(*patch, "-p", '{"data":{"y":"3"}}') == (
        'The ConfigMap "c" is invalid: data: Forbidden: field is immutable when `immutable` is set\n'
    )


@kubectl_since(24, "--subresource")
def test_status_is_patched_apart_and_waited_for(place: Place) -> None:
    apply(place, node(a="b"))
    condition = {"type": "Ready", "status": "True", "reason": "Applied", "message": "m"}
    condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    status = json.dumps({"spec": {"paused": True}, "status": {"conditions": [condition]}})
    place.kubectl("patch", "mn", "h1", "--subresource=status", "--type=merge", "-p", status)
    shown = json.loads(place.kubectl("get", "mn", "h1", "--subresource=status", "-o", "json"))
    assert (shown["spec"], shown["status"]["conditions"]) == ({}, [condition])
    met = "managednode.common.nodemanager/h1 condition met\n"
    for what in ("condition=Ready", "jsonpath={.metadata.labels.a}=b"):
        assert place.kubectl("wait", "mn/h1", f"--for={what}", "--timeout=10s") == met
    late = place.refused("wait", "mn/h1", "--for=condition=Ready=False", "--timeout=300ms")
    assert late == "error: timed out waiting for the condition on managednodes/h1\n"
    missing = place.refused("wait", "mn/nope", "--for=condition=Ready", "--timeout=5s")
    assert missing == (
        'Error from server (NotFound): managednodes.common.nodemanager "nope" not found\n'
    )  # fmt: skip


def test_output_formats(place: Place) -> None:
    apply(place, config_set(priority=3))

    def shown(form: str) -> str:
        return place.kubectl("get", "configset", "clock", "-o", form)

    assert shown("name") == "configset.common.nodemanager/clock\n"
    assert shown("jsonpath={.metadata.labels.role} {.spec.files[*].path}") == "web /etc/chrony.conf"
    assert shown("go-template={{.spec.priority}}") == "3"
    columns = shown("custom-columns=N:.metadata.name,P:.spec.files[0].path,X:.spec.nope").splitlines()
    assert [line.split() for line in columns] == [["N", "P", "X"], ["clock", "/etc/chrony.conf", "<none>"]]
    assert json.loads(shown("json"))["spec"]["priority"] == 3
    assert "\nkind: ConfigSet\n" in shown("yaml")
    table = place.kubectl("get", "configset").splitlines()
    assert table[0].split()[:2] == ["NAME", "NODES"]
    assert table[1].split()[0] == "clock"
    wide = place.kubectl("get", "configset", "-o", "wide", "--show-labels").splitlines()
    assert wide[1][wide[0].index("PRIORITY") :].split()[0] == "3"
    assert wide[1].endswith("role=web")


def test_our_category(place: Place) -> None:
    apply(place, config_set())
    apply(place, node())
    assert place.kubectl("get", "nodemanager", "-o", "name").split() == [
        "configset.common.nodemanager/clock",
        "managednode.common.nodemanager/h1",
    ]


def test_selectors(place: Place) -> None:
    for name, role in (("a", "web"), ("b", "db"), ("c", "web")):
        place.kubectl("create", "configmap", name)
        place.kubectl("label", "configmap", name, f"role={role}")

    def selected(*args: str) -> list[str]:
        names = place.kubectl("get", "configmap", "-o", "name", *args).split()
        return [name.removeprefix("configmap/") for name in names if "kube-root-ca" not in name]

    assert selected("-l", "role=web") == ["a", "c"]
    assert selected("-l", "role notin (web),role") == ["b"]
    assert selected("--field-selector", "metadata.name=b") == ["b"]
    assert selected("--field-selector", "metadata.name!=b") == ["a", "c"]
    assert '"spec.x" is not a known field selector: only "metadata.name"' in place.refused(
        "get", "configmap", "--field-selector", "spec.x=1"
    )


def test_sorting_and_chunks(place: Place) -> None:
    for index, name in enumerate(("d", "c", "b", "a", "e")):
        place.kubectl("create", "configmap", name, f"--from-literal=n={index}")
    chunks = place.run("get", "configmap", "--chunk-size=2", "-o", "name", "-v=8")
    assert chunks.stdout.split() == [f"configmap/{name}" for name in "abcde"]
    assert chunks.stderr.count("continue=") >= 2
    by_data = place.kubectl("get", "configmap", "--sort-by=.data.n", "-o", "name").split()
    assert by_data == [f"configmap/{name}" for name in "dcbae"]


def test_a_watch_prints_every_change(place: Place) -> None:
    argv = ["kubectl", "get", "configset", "-w", "--output-watch-events", "--request-timeout=20s"]
    environ = place.environ()
    place.kubectl("version")  # skips where there is no kubectl
    apply(place, config_set())
    with subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, text=True) as watching:
        try:
            assert watching.stdout is not None
            seen = [watching.stdout.readline().split()[:2] for _ in range(2)]
            place.kubectl("label", "configset", "clock", "x=y")
            seen.append(watching.stdout.readline().split()[:2])
            place.kubectl("delete", "configset", "clock")
            seen.append(watching.stdout.readline().split()[:2])
        finally:
            watching.kill()
    assert seen == [["EVENT", "NAME"], ["ADDED", "clock"], ["MODIFIED", "clock"], ["DELETED", "clock"]]


@pytest.mark.parametrize(("command", "field"), [("label", "labels"), ("annotate", "annotations")])
def test_labels_and_annotations(place: Place, command: str, field: str) -> None:
    place.kubectl("create", "configmap", "c")
    place.kubectl(command, "configmap", "c", "x=y")
    assert "'x' already has a value (y)" in place.refused(command, "configmap", "c", "x=z")
    place.kubectl(command, "configmap", "c", "x=z", "--overwrite")
    place.kubectl(command, "configmap", "--all", "q=1")
    assert sorted(place.kubectl(command, "configmap", "c", "--list").split()) == ["q=1", "x=z"]
    place.kubectl(command, "configmap", "c", "x-")
    assert place.shown("configmap", "c")["metadata"][field] == {"q": "1"}


@kubectl_since(24, "waiting for the deletion of what is gone")
def test_delete_and_wait(place: Place) -> None:
    apply(place, config_set())
    assert "deleted" in place.kubectl("delete", "configset", "clock", "--cascade=background")
    assert place.kubectl("delete", "configset", "clock", "--ignore-not-found") == ""
    assert place.refused("delete", "configset", "clock") == (
        'Error from server (NotFound): configsets.common.nodemanager "clock" not found\n'
    )
    assert place.kubectl("wait", "configset/clock", "--for=delete", "--timeout=5s") == ""


@kubectl_since(24, "waiting for the deletion of what is gone")
def test_delete_waits_for_finalizers(place: Place) -> None:
    apply(place, node())
    hold = '{"metadata":{"finalizers":["clients.test/hold"]}}'
    place.kubectl("patch", "mn", "h1", "--type=merge", "-p", hold)
    late = place.refused("delete", "mn", "h1", "--timeout=300ms")
    assert late.endswith("error: timed out waiting for the condition on managednodes/h1\n")
    assert place.shown("mn", "h1")["metadata"]["deletionTimestamp"]
    argv = ["kubectl", "wait", "mn/h1", "--for=delete", "--timeout=20s"]
    with subprocess.Popen(argv, env=place.environ(), stdout=subprocess.PIPE, text=True) as waiting:
        place.kubectl("patch", "mn", "h1", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        assert waiting.wait(90) == 0


def test_delete_all_and_what_a_dry_run_deletes(place: Place) -> None:
    apply(place, config_set())
    apply(place, node())
    assert place.kubectl("delete", "configset,mn", "--all", "--dry-run=server").count("(server dry run)") == 2
    assert len(place.kubectl("get", "nodemanager", "-o", "name").split()) == 2
    assert place.kubectl("delete", "configset,mn", "--all").count("deleted") == 2
    assert place.kubectl("get", "nodemanager", "-o", "name") == ""


def test_dry_runs_change_nothing(place: Place) -> None:
    assert apply(place, config_set(), "--dry-run=server") == (
        "configset.common.nodemanager/clock created (server dry run)\n"
    )
    assert "not found" in place.refused("get", "configset", "clock")
    apply(place, config_set())
    would = apply(place, config_set("y\n"), "--dry-run=server", "-o", "json")
    assert json.loads(would)["spec"]["files"][0]["content"] == "y\n"
    assert place.shown("configset", "clock")["spec"]["files"][0]["content"] == "x\n"


def test_replace(place: Place) -> None:
    assert "not found" in place.refused("replace", "-f", "-", stdin=config_set())
    apply(place, config_set())
    before = place.shown("configset", "clock")["metadata"]["uid"]
    assert "replaced" in place.kubectl("replace", "-f", "-", stdin=config_set("y\n"))
    assert place.shown("configset", "clock")["metadata"]["uid"] == before
    assert "replaced" in place.kubectl("replace", "--force", "-f", "-", stdin=config_set())
    assert place.shown("configset", "clock")["metadata"]["uid"] != before


@kubectl_since(21, "--show-managed-fields")
def test_field_managers(place: Place) -> None:
    place.kubectl("create", "configmap", "c", "--from-literal=a=b", "--field-manager=me")
    place.kubectl("label", "configmap", "c", "a=b")
    assert managers(place, "configmap", "c") == {("me", "Update"), ("kubectl-label", "Update")}


@kubectl_since(22, "labels in a kustomization")
def test_kustomize(place: Place, tmp_path: Path) -> None:
    (tmp_path / "set.yaml").write_text(config_set())
    (tmp_path / "kustomization.yaml").write_text(
        json.dumps(
            {
                "namespace": place.namespace,
                "namePrefix": "k-",
                "labels": [{"pairs": {"by": "kustomize"}}],
                "resources": ["set.yaml"],
                "configMapGenerator": [{"name": "gen", "literals": ["a=b"]}],
            }
        )
    )
    applied = place.kubectl("apply", "-k", str(tmp_path))
    assert "configset.common.nodemanager/k-clock created" in applied
    labelled = place.kubectl("get", "configmap,configset", "-l", "by=kustomize", "-o", "name").split()
    assert [name.partition("-")[0] for name in labelled] == ["configmap/k", "configset.common.nodemanager/k"]
    assert place.kubectl("delete", "-k", str(tmp_path)).count("deleted") == 2


@kubectl_since(26, "--prune-allowlist")
def test_pruning_what_is_no_longer_applied(place: Place) -> None:
    apply(place, config_set())
    apply(place, config_set().replace('"clock"', '"b"'))
    prune = ("--prune", "-l", "role=web", "--prune-allowlist=common.nodemanager/v1/ConfigSet")
    assert "configset.common.nodemanager/b pruned" in apply(place, config_set(), *prune)


@kubectl_since(25, "validation by the server")
def test_field_validation(place: Place) -> None:
    unknown = config_set(filez=[])
    refused = place.refused("apply", "-f", "-", stdin=unknown)
    assert 'strict decoding error: unknown field "spec.filez"' in refused
    warned = place.run("apply", "--validate=warn", "-f", "-", stdin=unknown)
    assert (warned.returncode, warned.stderr) == (0, 'Warning: unknown field "spec.filez"\n')
    ignored = place.run("apply", "--validate=ignore", "-f", "-", stdin=unknown)
    assert (ignored.returncode, ignored.stderr) == (0, "")


def test_what_there_is_no_subresource_for(place: Place) -> None:
    apply(place, config_set())
    assert place.refused("scale", "configset", "clock", "--replicas=3") == (
        'Error from server (NotFound): configsets.common.nodemanager "clock" not found\n'
    )
    assert 'no kind "ConfigSet" is registered' in place.refused("rollout", "status", "configset", "clock")
    assert "error: the server doesn't have a resource type" in place.refused("get", "nonesuch")


def test_elsewhere(place: Place) -> None:
    missing = place.refused("apply", "-n", "nowhere", "-f", "-", stdin=config_set())
    assert missing.endswith('namespaces "nowhere" not found\n')
    strange = json.dumps({"apiVersion": "nope/v1", "kind": "ConfigSet", "metadata": {"name": "a"}})
    assert 'no matches for kind "ConfigSet" in version "nope/v1"' in place.refused(
        "apply", "-f", "-", stdin=strange
    )


@pytest.mark.parametrize("kind", ["configmaps", "secrets", "namespaces", "serviceaccounts"])
def test_lists_are_sorted_by_kubectl(place: Place, kind: str) -> None:
    """It sorts the objects of a Table, and prints `<unknown>` for those that do not say what they are."""
    for name in ("b", "a"):
        place.kubectl("create", "configmap", name)
        place.kubectl("create", "secret", "generic", name)
    shown = place.kubectl("get", kind, "--sort-by=.metadata.name")
    assert "<unknown>" not in shown
    names = [line.split()[0] for line in shown.splitlines()[1:]]
    assert names == sorted(names)


@pytest.mark.parametrize("breaks", ["\n", "\r\n"])
def test_base64_may_have_line_breaks(place: Place, breaks: str) -> None:
    """Every `data: {key: |` block has one at its end; what is stored has none."""
    wrapped = f"aGVs{breaks}bG8={breaks}"
    meta = {"metadata": {"name": "wrapped"}}
    secret = {"apiVersion": "v1", "kind": "Secret", **meta, "data": {"key": wrapped}}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", **meta, "binaryData": {"key": wrapped}}
    for obj, field in ((secret, "data"), (config_map, "binaryData")):
        place.kubectl("create", "-f", "-", stdin=json.dumps(obj))
        found = json.loads(place.kubectl("get", str(obj["kind"]), "wrapped", "-o", "json"))
        assert found[field] == {"key": "aGVsbG8="}
