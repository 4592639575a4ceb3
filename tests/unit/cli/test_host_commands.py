"""plan, apply, backups and restore on a folder that stands for a host."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodemanager.cli import main
from nodemanager.host.files import staging
from nodemanager.host.files.tree import Tree
from nodemanager.plan.steps import WriteFile
from nodemanager.store.sqlite import SqliteStore
from support import cli
from support.agent_process import owned
from support.root_tree import needs_root

SECRET = "correct-horse"
SECRET_OBJECT = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
KEYS = {"resource", "step", "configSets", "reason", "details"}


def manifest(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "common.nodemanager/v1",
        "kind": "ConfigSet",
        "metadata": {"name": "a"},
        "spec": {"nodeSelector": {}, **spec},
    }


class Place:
    """A folder with manifests, and one that is the host."""

    def __init__(self, folder: Path) -> None:
        self.manifests = folder / "manifests"
        self.root = folder / "root"
        self.manifests.mkdir()
        (self.root / "etc").mkdir(parents=True)

    def write(self, *objects: dict[str, Any], name: str = "a.yaml") -> None:
        (self.manifests / name).write_text(yaml.safe_dump_all(objects))

    def plan(self, *more: str) -> cli.Ran:
        return cli.run(
            "plan", "-f", str(self.manifests), "--root", str(self.root), "--hostname", "web1", *more
        )

    def apply(self, *more: str) -> cli.Ran:
        folder = str(self.manifests)
        return cli.run(
            "apply", "--manifest-dir", folder, "--root", str(self.root), "--hostname", "web1", *more
        )


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_plan_says_what_and_why_and_changes_nothing(place: Place) -> None:
    place.write(manifest(files=[owned("/etc/motd", content="new\n")]))
    (place.root / "etc/motd").write_text("old\n")
    ran = place.plan()
    assert ran.code == 2
    lines = ran.stdout.splitlines()
    assert lines[0].startswith("file:/etc/motd  write: content differs")
    assert "    -old" in lines
    assert "    +new" in lines
    assert lines[-1] == "1 to change, 0 as declared."
    assert "\x1b" not in ran.stdout
    assert (place.root / "etc/motd").read_text() == "old\n"
    assert not (place.root / "var").exists()


def test_exit_codes_of_a_plan(place: Place) -> None:
    place.write(manifest(files=[owned("/etc/motd", content="new\n")]))
    assert place.plan().code == 2
    assert place.apply().code == 0
    assert place.plan().code == 0
    place.write(manifest(files=[owned("/etc/motd/below", content="x")]))
    assert place.plan().code == 1  # nothing can be changed, and not all is well
    assert place.plan("-f", "/proc/nonexistent").code == 1
    (place.manifests / "a.yaml").write_text("a: [")
    assert place.plan().code == 1


def test_the_json_of_a_plan(place: Place) -> None:
    place.write(manifest(files=[owned("/etc/motd", content="new\n"), owned("/etc", ensure="directory")]))
    ran = place.plan("-o", "json")
    assert ran.code == 2
    found = json.loads(ran.stdout)
    assert [set(one) for one in found] == [KEYS, KEYS]
    by_name = {one["resource"]: one for one in found}
    assert by_name["file:/etc"]["step"] == "Noop"
    assert by_name["file:/etc/motd"]["step"] == "WriteFile"
    assert by_name["file:/etc/motd"]["configSets"] == ["a"]
    assert "+new" in by_name["file:/etc/motd"]["details"]


def test_what_apply_did_for_programs(place: Place) -> None:
    (place.root / "etc/file").write_text("x")
    place.write(manifest(files=[owned("/etc/file/below", content="x"), owned("/etc/good", content="x")]))
    ran = place.apply("-o", "json")
    assert ran.code == 1
    found = {one["resource"]: one for one in json.loads(ran.stdout)}
    assert [set(one) for one in found.values()] == [{"resource", "outcome", "configSets", "message"}] * 2
    assert found["file:/etc/good"]["outcome"] == "changed"
    assert found["file:/etc/good"]["configSets"] == ["a"]
    assert found["file:/etc/file/below"]["outcome"] != "changed"
    assert "/etc/file" in found["file:/etc/file/below"]["message"]


@pytest.mark.parametrize("option", ["-f", "--filename", "--manifest-dir"])
@pytest.mark.parametrize("command", ["plan", "apply"])
def test_both_find_manifests_alike(place: Place, command: str, option: str, tmp_path: Path) -> None:
    """As kubectl calls the option, and as the Go program does; several times, files or folders."""
    place.write(manifest(files=[owned("/etc/one", content="1")]))
    other = manifest(files=[owned("/etc/two", content="2")])
    (tmp_path / "two.yaml").write_text(yaml.safe_dump({**other, "metadata": {"name": "b"}}))
    rest = ["--root", str(place.root), "--hostname", "web1", "-o", "json"]
    given = [option, str(place.manifests), option, str(tmp_path / "two.yaml")]
    ran = cli.run(command, *given, *rest)
    assert {one["resource"] for one in json.loads(ran.stdout)} == {"file:/etc/one", "file:/etc/two"}
    ran = cli.run(command, option, str(tmp_path / "none"), *rest)
    assert (ran.code, ran.stderr) == (1, f"error: cannot find manifests: there is no {tmp_path}/none\n")


def test_yaml_says_what_json_says(place: Place) -> None:
    place.write(manifest(files=[owned("/etc/motd", content="new\n")]))
    (place.root / "etc/motd").write_text("old\n")
    root = ["--root", str(place.root)]
    manifests = ["-f", str(place.manifests), "--hostname", "web1", *root]
    for argv in (["plan", *manifests], ["version"]):
        assert yaml.safe_load(cli.run(*argv, "-o", "yaml").stdout) == json.loads(
            cli.run(*argv, "-o", "json").stdout
        )
    (did,) = yaml.safe_load(cli.run("apply", *manifests, "-o", "yaml").stdout)
    assert (did["resource"], did["outcome"]) == ("file:/etc/motd", "changed")
    kept = yaml.safe_load(cli.run("backups", "-o", "yaml", *root).stdout)
    assert kept == json.loads(cli.run("backups", "-o", "json", *root).stdout)
    assert [one["path"] for one in kept] == ["/etc/motd"]


@pytest.mark.parametrize("form", ["diff", "json", "yaml"])
def test_secrets_are_masked(place: Place, form: str) -> None:
    template = '{{ index (ds "data").Node.Secrets "k" | base64.Decode }}'
    secret = {**SECRET_OBJECT, "stringData": {"k": SECRET}}
    place.write(manifest(files=[owned("/etc/s", template=template, secretRefs=["s"])]), secret)
    (place.root / "etc/s").write_text("old " + SECRET)
    ran = place.plan("-o", form)
    assert ran.code == 2
    assert "made of Secrets, not shown" in ran.stdout
    assert SECRET not in ran.stdout + ran.stderr
    ran = place.apply()
    assert (ran.code, (place.root / "etc/s").read_text()) == (0, SECRET)
    assert SECRET not in ran.stdout + ran.stderr


def content_from(name: str, key: str) -> dict[str, Any]:
    kind = "secretKeyRef" if name == "s" else "configMapKeyRef"
    return {kind: {"name": name, "key": key}}


def test_bytes_arrive_as_they_are_and_a_plan_shows_none_of_them(place: Place) -> None:
    data = b"\x89PNG\r\n\0\xff" + SECRET.encode()
    encoded = base64.b64encode(data).decode()
    secret = {**SECRET_OBJECT, "data": {"k": encoded}}
    logo = {**SECRET_OBJECT, "kind": "ConfigMap", "metadata": {"name": "logo"}, "binaryData": {"k": encoded}}
    files = [
        owned("/etc/secret", contentFrom=content_from("s", "k")),
        owned("/etc/logo", mode="0644", contentFrom=content_from("logo", "k")),
        owned("/etc/literal", mode="0644", contentBase64=encoded),
    ]
    place.write(manifest(files=files), secret, logo)
    (place.root / "etc/logo").write_bytes(b"\0")
    ran = place.plan()
    assert (ran.code, SECRET in ran.stdout + ran.stderr) == (2, False)
    digest = hashlib.sha256(data).hexdigest()[:16]
    found = hashlib.sha256(b"\0").hexdigest()[:16]
    was = f"(binary or large: 21 bytes, SHA-256 {digest}, mode 0644; now 1 bytes, SHA-256 {found})"
    assert was in ran.stdout
    assert f"(binary or large: 21 bytes, SHA-256 {digest}, mode 0644)" in ran.stdout
    assert "(made of Secrets, not shown: 21 bytes, mode 0600)" in ran.stdout
    ran = place.apply()
    assert (ran.code, SECRET in ran.stdout + ran.stderr) == (0, False)
    for name in ("secret", "logo", "literal"):
        assert (place.root / "etc" / name).read_bytes() == data
    assert (place.root / "etc/secret").stat().st_mode & 0o777 == 0o600
    assert place.plan().code == 0


def test_templates_see_the_host_that_the_command_runs_on(place: Place) -> None:
    """As they would if an agent reported it; what a manifest says of a host stays."""
    (place.root / "etc/ssh").mkdir()
    blob = base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(32)).decode()
    (place.root / "etc/ssh/ssh_host_ed25519_key.pub").write_text(f"ssh-ed25519 {blob} root@web1\n")
    template = (
        "{{ .Node.Status.Release }} {{ len .Node.Status.SSHHostKeys }} {{ .Node.Labels.role | default `-` }}"
        "{{ range .Nodes }} {{ .Name }}={{ .Status.Release }}{{ end }}\n"
    )
    one = manifest(files=[owned("/etc/x", template=template)])
    place.write(one)
    release = os.uname().release
    assert place.apply().code == 0
    assert (place.root / "etc/x").read_text() == f"{release} 2 - web1={release}\n"
    node = {"apiVersion": "common.nodemanager/v1", "kind": "ManagedNode", "status": {"release": "9.9"}}
    named = {**node, "metadata": {"name": "web1", "labels": {"role": "db"}}}
    place.write(one, named, {**node, "metadata": {"name": "web0"}})
    assert place.plan().code == 2
    assert place.apply().code == 0
    assert (place.root / "etc/x").read_text() == "9.9 2 db web0=9.9 web1=9.9\n"


def on_a_terminal(*argv: str, **environ: str) -> tuple[int, bytes]:
    """Return the exit code of a command whose output is a terminal, and what was seen there."""
    near, far = os.openpty()
    with subprocess.Popen([*cli.ARGV, *argv], stdout=far, env=cli.environment(**environ)) as process:
        os.close(far)
        seen = b""
        try:
            while chunk := os.read(near, 4096):
                seen += chunk
        except OSError:  # the other side is gone
            pass
        code = process.wait(90)
    os.close(near)
    return code, seen


@pytest.mark.parametrize(("command", "code"), [("plan", 2), ("apply", 0)])
def test_colours_are_for_terminals_that_want_them(place: Place, command: str, code: int) -> None:
    place.write(manifest(files=[owned("/etc/motd", content="new\n")]))
    argv = [command, "-f", str(place.manifests), "--root", str(place.root), "--hostname", "web1"]
    for environ, coloured in [({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({}, True)]:
        (place.root / "etc/motd").unlink(missing_ok=True)
        ended, seen = on_a_terminal(*argv, **{"TERM": "xterm", **environ})
        assert (ended, b"\x1b[" in seen) == (code, coloured), (environ, seen)


def test_apply_backups_restore(place: Place) -> None:
    (place.root / "etc/motd").write_text("precious\n")
    place.write(manifest(files=[owned("/etc/motd", content="new\n")]))
    ran = place.apply()
    assert ran.code == 0
    assert "file:/etc/motd  changed: content differs" in ran.stdout
    assert place.apply().stdout == "1 unchanged\n"
    root = str(place.root)
    (kept,) = json.loads(cli.run("backups", "-o", "json", "--root", root).stdout)
    assert (kept["path"], kept["size"]) == ("/etc/motd", 9)
    assert "/etc/motd" in cli.run("backups", "/etc/motd", "--root", root).stdout
    none = cli.run("backups", "/etc/other", "--root", root)
    assert (none.code, none.stdout, none.stderr) == (0, "", "no backups of /etc/other\n")
    ran = cli.run("restore", "/etc/motd", "--root", root)
    assert (ran.code, (place.root / "etc/motd").read_text()) == (0, "precious\n")
    ran = cli.run("restore", "/etc/motd", "--to", "ffff", "--root", root)
    assert (ran.code, ran.stderr) == (
        1,
        "error: cannot restore /etc/motd: no backup of it has the hash ffff; see nodemanager backups\n",
    )


def test_a_pass_that_tidies_up_meanwhile_does_not_keep_a_restore_from_its_end(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.root / "etc/motd").write_text("precious\n")
    place.write(manifest(files=[owned("/etc/motd", content="new\n")]))
    assert place.apply().code == 0
    stage = staging.stage_file

    def stage_beside_an_agent(tree: Tree, step: WriteFile, areas: staging.Areas) -> staging.Staged:
        staged = stage(tree, step, areas)
        assert staging.sweep(tree, "/etc") == (0, 1)
        return staged

    monkeypatch.setattr(staging, "stage_file", stage_beside_an_agent)
    ran = cli.run("restore", "/etc/motd", "--root", str(place.root))
    assert (ran.code, (place.root / "etc/motd").read_text()) == (0, "precious\n")


AS_NOBODY = """\
import contextlib, io, os, sys
from nodemanager.cli import main
from nodemanager.cli.commands.host import apply, backups, plan, restore
{warm_up}
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sys.exit(main.run([*{argv!r}, "--root", {root!r}]))
"""
# Changes nothing on a host that is as declared, and imports what is needed: nobody may be unable to read it.
AS_ROOT_BEFORE = 'with contextlib.redirect_stdout(io.StringIO()): main.run([*{argv!r}, "--root", {root!r}])'


@needs_root
@pytest.mark.parametrize("argv", [["backups"], ["restore", "/etc/motd"]])
def test_what_somebody_may_not_read_is_not_told_to_be_missing(argv: list[str], open_folder: Path) -> None:
    place = Place(open_folder)
    (place.root / "etc/motd").write_text("precious\n")
    place.write(manifest(files=[owned("/etc/motd", content="new\n")]))
    assert place.apply().code == 0
    script = AS_NOBODY.format(root=str(place.root), argv=argv, warm_up="")
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: cannot read the backups of this host: only root may; run it with sudo\n"


@needs_root
@pytest.mark.parametrize("command", ["plan", "apply"])
def test_who_is_not_root_is_told_to_use_sudo_and_not_to_remove_the_state(
    command: str, open_folder: Path
) -> None:
    place = Place(open_folder)
    place.write(manifest(files=[owned("/etc/motd", content="new\n")]))
    assert place.apply().code == 0
    argv = [command, "-f", str(place.manifests), "--hostname", "web1"]
    warm_up = AS_ROOT_BEFORE.format(root=str(place.root), argv=argv)
    script = AS_NOBODY.format(root=str(place.root), argv=argv, warm_up=warm_up)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"error: cannot read what is owed from {place.root}/var/lib/nodemanager/pending.json: Permission"
        " denied; only root may: run it with sudo\n"
    )


def test_apply_goes_on_after_a_failure_and_says_so(place: Place) -> None:
    (place.root / "etc/file").write_text("x")
    files = [owned("/etc/file/below", content="x"), owned("/etc/good", content="x")]
    place.write(manifest(files=files))
    ran = place.apply()
    assert ran.code == 1
    assert (place.root / "etc/good").read_text() == "x"
    assert "file:/etc/file/below" in ran.stdout


def test_a_tab_is_told(place: Place) -> None:
    (place.manifests / "a.yaml").write_text("spec:\n\tfiles: []\n")
    ran = place.plan()
    assert ran.code == 1
    assert "line 2" in ran.stderr
    assert ran.stderr.endswith("; indent by spaces, not tabs, and quote texts that begin with @ or `\n")


def test_that_there_is_no_set_at_all_is_told(place: Place) -> None:
    place.write({**SECRET_OBJECT})
    for ran in (place.plan(), place.apply()):
        assert (ran.code, ran.stderr) == (0, "there is no ConfigSet at all\n")


def test_no_set_for_this_host_is_told(place: Place) -> None:
    place.write({**manifest(files=[]), "spec": {}})
    ran = place.apply()
    assert ran.code == 0
    assert ran.stderr.startswith("no ConfigSet matches this host, whose labels are kubernetes.io/arch=")


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        (
            [manifest(files=[{"path": "/x", "contents": "x"}])],
            "unknown field spec.files[0].contents; did you mean content?",
        ),
        ([manifest(file=[])], "unknown field spec.file; did you mean files?"),
        (
            [manifest(file=[], files=[{"path": "/a", "mode": "644"}])],
            "did you mean files?; spec.files[0].mode: Invalid value",  # all at once, not one after the other
        ),
        ([manifest(zzz=[])], "unknown field spec.zzz; see kubectl explain, or docs/reference"),
        ([manifest(files=[{"path": "/x", "mode": 644}])], "spec.files[0].mode: Invalid value"),
        ([manifest(files=[{"path": "/x", "mode": 644}])], "; what is to be a text needs quotes in YAML"),
        ([manifest(files=[{"path": "x", "content": "x"}])], "spec.files[0].path"),
        ([{**manifest(), "kind": "Configset"}], "write common.nodemanager/v1 ConfigSet"),
        ([{**manifest(), "apiVersion": "common.nodemanager/v2"}], "write common.nodemanager/v1 ConfigSet"),
        ([{**manifest(), "kind": "Jail"}], "Revision or common.nodemanager/v1 ManagedNode"),
        ([manifest(), manifest()], "a is declared twice"),
        ([{**manifest(), "metadata": {}}], "metadata.name is missing"),
        ([{**SECRET_OBJECT, "data": {"k": "?"}}], "not base64"),
        ([{**SECRET_OBJECT, "stringData": {"k": 1}}], "quote it"),
        ([{**SECRET_OBJECT, "kind": "ConfigMap", "data": ["x"]}], "is not a map"),
        ([{**SECRET_OBJECT, "kind": "ConfigMap", "metadata": "s"}], "has no metadata.name"),
    ],
)  # fmt: skip
def test_bad_manifests_are_refused_by_name(place: Place, objects: list[dict[str, Any]], said: str) -> None:
    place.write(*objects)
    for ran in (place.plan(), place.apply()):
        assert ran.code == 1, ran
        assert ran.stderr.startswith("error: cannot use ")
        assert "a.yaml" in ran.stderr
        assert said in ran.stderr


def test_text_that_is_not_utf_8(place: Place) -> None:
    (place.manifests / "a.yaml").write_bytes(b"\xff\xfe")
    ran = place.plan()
    assert (ran.code, ran.stderr) == (
        1,
        f"error: cannot read {place.manifests}/a.yaml: it is not UTF-8 text\n",
    )


def test_an_empty_folder(place: Place) -> None:
    ran = place.apply()
    assert ran.code == 1
    assert ran.stderr.startswith("error: cannot find manifests: no .yaml or .yml or .json files in ")
    assert ran.stderr.endswith("; folders below are read only if they are named\n")


def test_kinds_of_others_may_lie_beside_ours(place: Place) -> None:
    place.write({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}, manifest())
    assert place.plan().code == 0


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["-kubeconfig", "F", "-namespace", "N"], ["agent", "--kubeconfig", "F", "--namespace", "N"]),
        (["--kubeconfig=F"], ["agent", "--kubeconfig=F"]),
        (["-metrics-bind-address=:1"], ["agent", "--metrics-bind-address=:1"]),
        ([], ["agent"]),
        (["-n", "N"], ["agent", "-n", "N"]),
        (["get", "mn"], ["get", "mn"]),
        (["-version"], ["-version"]),
    ],
)
def test_no_command_is_the_agent(given: list[str], meant: list[str]) -> None:
    assert main.with_agent(given) == meant


def test_options_of_the_go_program_are_taken(tmp_path: Path) -> None:
    ran = cli.run("-leader-elect=false", "-gomplate-path", "gomplate", "-kubeconfig", str(tmp_path / "none"))
    assert ran.code == 1
    assert "option --gomplate-path has no meaning here and is ignored\n" in ran.stderr
    assert f"cannot read the kubeconfig {tmp_path}/none: it does not exist" in ran.stderr


def test_the_help_knows_the_commands() -> None:
    text = cli.run("--help").stdout
    for name in ("demo", "up", "plan", "apply", "backups", "restore", "agent"):
        assert f"\n  {name} " in text
    for name in ("NODEMANAGER_NAMESPACE", "NODEMANAGER_HOSTNAME"):
        assert name in cli.run("agent", "--help").stdout


@pytest.mark.parametrize("command", ["backups", "restore"])
def test_a_path_from_somewhere_else_is_wrong_usage(command: str, tmp_path: Path) -> None:
    ran = cli.run(command, "etc/motd", "--root", str(tmp_path))
    assert ran.code == 2
    assert "'etc/motd' is not the whole path; write it like /etc/motd" in ran.stderr


def test_a_backup_of_the_server_is_told_in_words(tmp_path: Path) -> None:
    async def make() -> None:
        await (await SqliteStore.open(tmp_path / "state.db")).close()

    asyncio.run(make())
    ran = cli.run("server", "backup", "--data-dir", str(tmp_path), str(tmp_path / "copy"))
    assert ran.code == 0, ran.stderr
    assert re.fullmatch(rf"wrote {tmp_path}/copy: 0 objects at revision \d+\n", ran.stdout)
