"""`nodemanager schemas`: what editors need to know, of every kind."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nodemanager.api import kinds
from support import cli


def walk(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from walk(inner)


def test_a_file_for_every_kind(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "schemas"
    ran = cli.run("schemas", str(folder))
    names = [*(f"{one.singular}.json" for one in kinds.BY_NAME), "all.json"]
    assert ran.stdout.splitlines() == [str(folder / name) for name in names]
    schema = json.loads((folder / "configset.json").read_text())
    assert schema["properties"]["kind"] == {"const": "ConfigSet"}
    assert schema["properties"]["apiVersion"] == {"const": "common.nodemanager/v1"}
    file = schema["properties"]["spec"]["properties"]["files"]["items"]
    assert file["additionalProperties"] is False
    assert file["properties"]["ensure"]["enum"] == ["file", "directory", "symlink", "absent", ""]
    everything = json.loads((folder / "all.json").read_text())
    assert json.loads(cli.run("schemas").stdout) == everything
    chosen = [case["if"]["properties"]["kind"]["const"] for case in everything["allOf"]]
    assert chosen == [one.resource.kind for one in kinds.BY_NAME]


def test_in_words_that_editors_know(tmp_path: Path) -> None:
    cli.run("schemas", str(tmp_path))
    for file in tmp_path.iterdir():
        schema = json.loads(file.read_text())
        assert schema["$schema"].startswith("http://json-schema.org/draft-07/")
        for node in walk(schema):
            assert not [key for key in node if str(key).startswith("x-")]
            if isinstance(pattern := node.get("pattern"), str):
                assert "\\x{" not in pattern
                re.compile(pattern)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = cli.run("schemas", str(tmp_path / "file" / "schemas"))
    assert ran.code == 1
    assert "cannot write schemas into" in ran.stderr
