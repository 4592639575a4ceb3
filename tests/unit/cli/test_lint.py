"""`nodemanager lint`: folders of tests/cases/lint have manifests, and in expected.txt what it says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nodemanager.plan.lint.findings import RULES
from support import cli

CASES = Path(__file__).parents[2] / "cases" / "lint"
EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*/"))
FOLDERS = sorted(path for path in CASES.iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", [pytest.param(path, id=path.name) for path in FOLDERS])
def test_what_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    ran = cli.run("lint", "-f", ".")
    assert ran.stdout == (folder / "expected.txt").read_text()
    assert ran.code == (0 if folder.name == "clean" else 1)


def test_every_rule_has_a_case() -> None:
    said = "".join((folder / "expected.txt").read_text() for folder in FOLDERS)
    assert [rule for rule in RULES if f"({rule})" not in said] == []


@pytest.mark.parametrize("folder", [pytest.param(path, id=path.name) for path in EXAMPLES])
def test_examples_are_clean(folder: Path) -> None:
    ran = cli.run("lint", "-f", str(folder))
    assert ran.code == 0, ran.stdout


def test_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CASES / "templates")
    ran = cli.run("lint", "-f", ".", "-o", "json")
    first = json.loads(ran.stdout)[0]
    assert first.pop("message").startswith("/etc/go: there is no function toUper")
    assert first == {
        "file": "sets.yaml", "line": 22, "severity": "error", "rule": "template-syntax", "kind": "ConfigSet",
        "name": "syntax", "field": "spec.files[0].template", "templateLine": 2, "templateColumn": 19,
    }  # fmt: skip


def test_annotations_of_a_review(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(CASES / "labels" / "sets.yaml", tmp_path / "a,b%.yaml")
    monkeypatch.chdir(tmp_path)
    ran = cli.run("lint", "-f", ".", "-o", "github")
    assert ran.stdout.splitlines()[0] == (
        "::warning file=a%2Cb%25.yaml,line=5,title=nodemanager gitops-labels::ConfigSet tracked: "
        "metadata.labels: app.kubernetes.io/instance: labels of a GitOps tool, which no host has, keep the "
        "set from matching by label; use spec.nodeSelector"
    )
    assert (ran.stderr, ran.code) == ("", 1)


def test_one_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(CASES / "templates")
    ran = cli.run("lint", "-f", ".", "--host", "db1")
    assert "/etc/some" not in ran.stdout  # it has the label that this template needs
    assert "(on host db1)" in ran.stdout
    file = tmp_path / "new.yaml"
    file.write_text("apiVersion: common.nodemanager/v1\nkind: ManagedNode\nmetadata: {name: new}\n")
    ran = cli.run("lint", "-f", ".", "--host", str(file))
    assert "(on host new)" in ran.stdout


def test_a_rule_may_be_ignored() -> None:
    ran = cli.run("lint", "-f", str(CASES / "labels"), "--ignore", "gitops-labels", "--ignore", "no-host")
    assert (ran.code, ran.stdout) == (0, "nothing found in 3 objects of 1 file\n")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        pytest.param(["-f", "nowhere"], "there is no nowhere", id="no folder"),
        pytest.param(["-f", "clean", "--host", "web9"], "cannot render for web9", id="no such host"),
        pytest.param(
            ["-f", "clean", "--host", "labels/sets.yaml"], "no ManagedNode in it", id="no host in it"
        ),
        pytest.param([], "Missing option", id="wrong usage"),
    ],
)
def test_what_cannot_be_looked_at(args: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CASES)
    ran = cli.run("lint", *args)
    assert said in ran.stderr
    assert ran.code == 2
