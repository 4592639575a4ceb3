"""What nobody registered is named, with the file to edit."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def test_everything_of_ours_is_registered() -> None:
    from tools import registered

    assert registered.forgotten(ROOT) == []
    assert registered.untried(ROOT) == []


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("api/garden/kinds.py", "garden/kinds.py is not in the registry: add its KINDS in src/"),
        ("controllers/audits/__init__.py", "ENTRIES in src/nodemanager/controllers/assembly.py"),
    ],
)  # fmt: skip
def test_what_is_not_is_named(tmp_path: Path, file: str, said: str) -> None:
    from tools import registered

    path = tmp_path / "src/nodemanager" / file
    path.parent.mkdir(parents=True)
    path.touch()
    [line] = registered.forgotten(tmp_path)
    assert said in line


def test_what_counts_as_a_branch() -> None:
    from tools import registered

    assert (
        registered.branches(
            "x = 1\ndef f(a): return a.b(*a, c=a[0])\nclass C:\n    pass\nfor a in b:\n    f()"
        )
        == 0
    )
    for one in (
        "if a: b()", "x = a if b else c", "while a: b()", "x = a or b or c", "x = a < b",
        "x = [a for a in b if a]", "match a:\n    case b: pass",
    ):  # fmt: skip
        assert registered.branches(one) == 1, one
    assert registered.branches("x = {a for a in b if a < c if d or e}\nif not a: pass\nelif b: pass") == 6


DECIDING = "def f(a):\n" + "    if a: pass\n" * 10


@pytest.mark.parametrize("engines", ["fleet", "controllers"])
@pytest.mark.parametrize(
    ("modules", "spared", "source", "said"),
    [
        pytest.param("", "", DECIDING, ["fleet/a/b has 10 branches"], id="forgotten"),
        pytest.param("", "", DECIDING.replace("    if a: pass\n", "", 1), [], id="it decides too little"),
        pytest.param('"fleet/a/b" = ["tests/x.py"]', "", DECIDING, [], id="it has tests"),
        pytest.param("", '"fleet/a/b" = "it only prints"', DECIDING, [], id="it has a reason"),
        pytest.param("", '"fleet/a/b" = ""', DECIDING, ["fleet/a/b is spared in vain"], id="it has none"),
        pytest.param('"fleet/a/b" = ["x"]', '"fleet/a/b" = "it only prints"', DECIDING,
                     ["fleet/a/b is spared in vain"], id="it has both"),
        pytest.param("", '"fleet/a/b" = "it only prints"', "", ["fleet/a/b is spared in vain"],
                     id="spared, and decides nothing"),
        pytest.param('"fleet/a/b" = ["x"]', '"fleet/gone" = "it only prints"', DECIDING,
                     ["fleet/gone is spared in vain"], id="spared, and gone"),
    ],
)  # fmt: skip
def test_a_module_that_decides_is_tried_with_mistakes_or_has_a_reason_why_not(
    tmp_path: Path, modules: str, spared: str, source: str, said: list[str], engines: str
) -> None:
    from tools import registered

    for name, text in {
        "tools/mutants.toml": f"[modules]\n{modules}\n[spared]\n{spared}\n".replace("fleet/", f"{engines}/"),
        f"src/nodemanager/{engines}/a/b.py": source,
        "src/nodemanager/other/c.py": DECIDING,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = registered.untried(tmp_path)
    assert len(found) == len(said)
    wanted = [start.replace("fleet/", f"{engines}/") for start in said]
    assert all(line.startswith(start) for line, start in zip(found, wanted, strict=True))
