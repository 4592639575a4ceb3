"""Which modules are packed into the static program, and that the same ones become the same bytes."""

from __future__ import annotations

import marshal
from pathlib import Path

import pytest
from tools.release import packing

FILES = {
    "site/nodemanager/__init__.py": '"""Ours."""\nfrom nodemanager import late\n',
    "site/nodemanager/late.py": "def run():\n    import other.deep.thing\n    from . import data\n",
    "site/nodemanager/data/words.txt": "hello",
    "site/nodemanager/cli/main.py": '"""Help."""\n',
    "site/nodemanager/unused.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import never\n",
    "site/other/__init__.py": '"""Docs."""\nimport base, curses\n',
    "site/other/deep/thing.py": "class A:\n    'Docs.'\ndef f():\n    '''Docs.'''\n    return 1\n",
    "site/other/tests.py": "",
    "site/never.py": "",
    "lib/base.py": "import sys\n",
    "lib/curses.py": "",
    "lib/encodings/__init__.py": "",
    "lib/encodings/aliases.py": "",
    "lib/encodings/utf_8.py": "",
}


PREPARED = [("exec:1:00", b"compiled")]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def packed(tree: Path) -> dict[str, packing.Entry]:
    found = packing.entries(tree / "site", tree / "lib", Path(packing.__file__).parent, PREPARED)
    assert [entry.name for entry in found] == sorted(entry.name for entry in found)
    return {entry.name: entry for entry in found}


def test_what_can_be_reached_is_packed_and_nothing_else(tree: Path) -> None:
    names = set(packed(tree)) - set(packing.REPLACED)
    assert names == {
        "nodemanager", "nodemanager.cli", "nodemanager.cli.main", "nodemanager.late",
        "nodemanager.unused", "nodemanager/data/words.txt",
        "other", "other.deep", "other.deep.thing", "base",
        "encodings", "encodings.aliases", "encodings.utf_8", "exec:1:00", packing.BUILD,
    }  # fmt: skip


def test_only_the_first_of_two_builds_has_what_finds_out_what_is_compiled(tree: Path) -> None:
    first = packing.entries(tree / "site", tree / "lib", Path(packing.__file__).parent)
    assert {one.name for one in first} - set(packed(tree)) == {packing.RECORDING}


def test_two_builds_are_told_apart_by_what_is_in_them(tree: Path) -> None:
    first, again = packed(tree)[packing.BUILD], packed(tree)[packing.BUILD]
    (tree / "site/nodemanager/late.py").write_text("NEWER = 1\n")
    assert first == again
    assert packed(tree)[packing.BUILD] != first


def test_a_dataclass_keeps_a_docstring_or_would_write_one_at_every_start(tree: Path) -> None:
    (tree / "site/nodemanager/late.py").write_text(
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass A:\n    'Docs.'\n    x: int = 1\n"
    )
    content = packed(tree)["nodemanager.late"].content
    assert b"Docs." not in content
    module: dict[str, object] = {"__name__": "dataclasses"}
    exec(marshal.loads(content), module)
    assert module["A"].__doc__ == "-"


def test_what_is_the_same_is_packed_once(tmp_path: Path) -> None:
    contents = {"a": b"12", "b": b"3", "c": b"12", "d": b""}
    packing.write([packing.Entry(name, content) for name, content in contents.items()], tmp_path)
    assert (tmp_path / "packed.bin").read_bytes() == b"123"
    header = (tmp_path / "packed.h").read_text().splitlines()
    lines = [line.strip() for line in header if line.startswith("    ")]
    assert lines[:5] == [*(rf'"{name}\0"' for name in contents), ";"]
    assert lines[5:] == ["{0, 0, 2, 0},", "{2, 2, 1, 0},", "{4, 0, 2, 0},", "{6, 3, 0, 0},"]


def test_a_package_without_code_is_one(tree: Path) -> None:
    found = packed(tree)
    assert found["other.deep"].is_package
    assert not found["other.deep.thing"].is_package


def test_docstrings_are_left_out_but_for_those_that_are_the_help(tree: Path) -> None:
    found = packed(tree)
    assert b"Docs." not in found["other"].content + found["other.deep.thing"].content
    assert b"Ours." not in found["nodemanager"].content
    assert b"Help." in found["nodemanager.cli.main"].content
    module: dict[str, object] = {}
    exec(marshal.loads(found["other.deep.thing"].content), module)
    assert module["f"]() == 1  # type: ignore[operator]


def test_the_same_sources_give_the_same_bytes(tree: Path, tmp_path: Path) -> None:
    written = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        packing.main([str(tree / "site"), str(tree / "lib"), str(tmp_path / name)])
        written.append([(tmp_path / name / file).read_bytes() for file in ("packed.bin", "packed.h")])
    assert written[0] == written[1]
    assert rb'"other.deep\0"' in written[0][1]
    assert str(tmp_path).encode() not in written[0][0]
