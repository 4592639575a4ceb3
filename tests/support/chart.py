"""The Helm chart, rendered: by a stand-in for what it uses of Helm, or by helm where that is installed."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gotpl
import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "nodemanager"
TEMPLATES = CHART / "templates"

_ASKED = re.compile(r'\(\.Capabilities\.APIVersions\.Has "([^"]+)"\)')
"""A question to the server, which has no other form in our templates."""

Object = dict[str, Any]


def rendered(*served: str, **values: Any) -> list[Object]:
    """Return the objects of the chart, without its CRDs, for values that differ from the default ones.

    `served` are kinds, with their group and version, that not every server has.
    """
    texts = (text(path, *served, **values) for path in sorted(TEMPLATES.glob("*.yaml")))
    return _objects("\n---\n".join(texts))


def text(path: Path, *served: str, **values: Any) -> str:
    """Return what becomes of one template."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    names = {"AppVersion": chart["appVersion"], "Name": chart["name"]}
    data = {"Values": merged(yaml.safe_load((CHART / "values.yaml").read_text()), values), "Chart": names}
    source = _ASKED.sub(lambda found: str(found[1] in served).lower(), path.read_text())
    return _render(source, (TEMPLATES / "_helpers.tpl").read_text(), data)


def by_helm(**values: Any) -> list[Object]:
    """Return what `helm template` makes of it, which must not complain."""
    done = helm("template", "release", str(CHART), "--values=-", stdin=json.dumps(values))
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return _objects(done.stdout)


def helm(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run helm, or skip where there is none."""
    if shutil.which("helm") is None:
        pytest.skip("no helm on PATH: the chart is rendered by our own stand-in only")
    return subprocess.run(
        ["helm", *args], input=stdin, capture_output=True, text=True, timeout=60, check=False
    )


def plain(folder: str) -> list[Object]:
    """Return the objects of a folder that has a kustomization; ours only list files."""
    top = ROOT / folder
    lists = yaml.safe_load((top / "kustomization.yaml").read_text())
    assert set(lists) == {"apiVersion", "kind", "resources"}
    return _objects("\n---\n".join((top / name).read_text() for name in lists["resources"]))


def merged(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> Object:
    """Return values as Helm merges them: objects by key, all else replaced."""
    found = dict(copy.deepcopy(defaults))
    for key, value in given.items():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = merged(found[key], value) if both else value
    return found


def named(objects: list[Object]) -> dict[str, Object]:
    """Return objects by kind and name; no two may have the same."""
    found = {f"{one['kind']}/{one['metadata']['name']}": one for one in objects}
    assert len(found) == len(objects)
    return found


def _objects(text: str) -> list[Object]:
    return [one for one in yaml.load_all(text, yaml.CSafeLoader) if one]


def _render(text: str, helpers: str, data: Object) -> str:
    def include(name: str, context: Any) -> str:
        return make(f'{{{{ template "{name}" . }}}}').render(context)

    def fail(why: str) -> str:
        raise ValueError(why)

    functions: dict[str, Callable[..., object]] = {
        "include": include,
        "nindent": lambda width, block: "".join(f"\n{' ' * width}{line}" for line in block.splitlines()),
        "toYaml": lambda value: yaml.safe_dump(value, sort_keys=False).rstrip("\n"),
        "quote": lambda value: json.dumps(str(value)),
        "default": lambda fallback, value: value or fallback,
        "int": int,
        "fail": fail,
    }

    def make(source: str) -> gotpl.Template:
        return gotpl.Template.from_sources(
            {"main": source, "helpers": helpers}, functions=functions, missing_key="error"
        )

    return make(text).render(data)
