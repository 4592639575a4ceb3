"""The generator: writes what the types say, checks without writing, and names what differs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nodemanager.api import crds, kinds
from nodemanager.kube import manifests

pytestmark = pytest.mark.xdist_group("generate")  # everything is generated once for all of them
ROOT = Path(__file__).resolve().parents[3]
CRDS = [f"{kind.resource.qualified_name}.yaml" for kind in kinds.BY_NAME]
FILES = [
    *(f"charts/nodemanager/crds/{name}" for name in CRDS),
    "charts/nodemanager/templates/namespace.yaml",
    "charts/nodemanager/templates/operation-templates.yaml",
    "charts/nodemanager/templates/operator-disruption-rbac.yaml",
    "charts/nodemanager/templates/operator-edge-rbac.yaml",
    "charts/nodemanager/templates/operator-rbac.yaml",
    "charts/nodemanager/templates/policy.yaml",
    "charts/nodemanager/templates/stamping.yaml",
    *(f"config/crd/{name}" for name in CRDS),
    "config/kustomization.yaml",
    "config/monitoring/edge-alerts.yaml",
    "config/monitoring/edge-board.json",
    "config/operation-templates/templates.yaml",
    "config/policy/approvals.yaml",
    "config/policy/audit.yaml",
    "config/policy/hosts.yaml",
    "config/policy/operator.yaml",
    "config/policy/previews.yaml",
    "config/policy/revisions.yaml",
    "config/policy/stamping.yaml",
    "config/policy/stamps.yaml",
    "config/policy/tasks.yaml",
    "config/rbac/node-role.yaml",
    "config/rbac/operator-disruption.yaml",
    "config/rbac/operator-edge.yaml",
    "config/rbac/operator.yaml",
    "config/rbac/people.yaml",
    "docs/pictures/demo.svg",
    "docs/pictures/drift.svg",
    "docs/pictures/flow.svg",
    "docs/pictures/operator.svg",
    "docs/pictures/packages.svg",
    "docs/pictures/pass.svg",
    "docs/pictures/plot-agent.svg",
    "docs/pictures/plot-drift.svg",
    "docs/pictures/plot-embedded.svg",
    "docs/pictures/plot-memory.svg",
    "docs/pictures/process.svg",
    *sorted(
        [
            "docs/reference/commands.md",
            "docs/reference/templates.md",
            "docs/reference/reason-codes.md",
            *(f"docs/{kind.page}" for kind in kinds.KINDS),
        ]
    ),
    "mkdocs.yml",
]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def run(*argv: str, root: Path) -> int:
    from tools import generate

    return generate.main(argv, root)


@pytest.fixture(scope="module", name="generated")
def _generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files, which nobody changes."""
    folder = tmp_path_factory.mktemp("generated")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        run(root=folder)
    return folder


def written(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_writes_every_file_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(root=tmp_path) == 0
    assert written(tmp_path) == FILES
    assert sorted(capsys.readouterr().out.splitlines()) == [f"wrote {name}" for name in FILES]
    assert run(root=tmp_path) == 0
    assert capsys.readouterr().out == ""


def test_check_accepts_what_was_just_written(generated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run("--check", root=generated) == 0
    assert capsys.readouterr().out == ""


def test_check_shows_the_difference_and_writes_nothing(
    tmp_path: Path, generated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(generated, tmp_path, dirs_exist_ok=True)
    capsys.readouterr()
    changed = "config/crd/configsets.common.nodemanager.yaml"
    path = tmp_path / changed
    edited = path.read_text(encoding="utf-8").replace("singular: configset", "singular: confset")
    path.write_text(edited, encoding="utf-8")
    assert run("--check", root=tmp_path) == 1
    out = capsys.readouterr().out
    assert f"{changed} is out of date: run make generate" in out
    assert "-    singular: confset" in out
    assert "+    singular: configset" in out
    assert FILES[1] not in out
    assert path.read_text(encoding="utf-8") == edited


def test_check_of_an_empty_folder_shows_only_the_head(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--check", root=tmp_path) == 1
    out = capsys.readouterr().out
    assert all(f"{name} is out of date" in out for name in FILES)
    assert len(out.splitlines()) < 50 * len(FILES)
    assert written(tmp_path) == []


def test_the_written_crds_are_the_crds(generated: Path) -> None:
    text = [(generated / name).read_text(encoding="utf-8") for name in FILES[: len(CRDS)]]
    assert [manifests.load_all(each, "crd")[0] for each in text] == crds.all_crds()
    assert all("do not edit: make generate" in each.splitlines()[0] for each in text)


def test_the_reference_has_every_field_in_its_section(generated: Path) -> None:
    page = (generated / "docs/reference/configset.md").read_text(encoding="utf-8")
    section = page.split("## spec.files[]\n")[1].split("\n## ")[0]
    assert "| `path` (required) | string | Absolute path on the host" in section
    assert "decimal 644 means something else" in section
    assert "One of `gotemplate`, `jinja`" in section
    assert "target is missing" in section
    assert "## spec.files[].validate\n" in page
    node = (generated / "docs/reference/managednode.md").read_text(encoding="utf-8")
    assert "## status.interfaces.*\n" in node
    assert "| `lastUpgrade` | time |" in node
    assert "| Drift | Whether the host differs" in node


def test_the_repository_is_up_to_date() -> None:
    """In a process of its own: click remembers how help was asked for in other tests of this one."""
    argv = [sys.executable, "-m", "tools.generate", "--check"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
