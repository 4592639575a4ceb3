"""What hosts, APIs and files say cannot steer the terminal of whoever looks, nor make lines there."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import yaml

from nodemanager.agent.report.local_status import Owed, SetState, Snapshot
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.cli.applying import converging
from nodemanager.cli.views import forms, output, plan_view, status_view
from nodemanager.cli.views.describe import configset, node
from nodemanager.host.files.tree import Tree
from nodemanager.host.results import Outcome, Result
from nodemanager.kube import core
from nodemanager.plan import resources, steps
from nodemanager.plan.facts import FileFact

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EVIL = "a\x1b]0;owned\x07\x9b31m\x85Ready: True\u2028x\u2029\u202eevil\u2066\x7f\rb\x00"
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


PLAIN: dict[str, Any] = {"string": EVIL, "integer": 1, "number": 1.0, "boolean": True, "null": None}


def steered(shown: str) -> list[str]:
    return STEERS.findall(shown)


def filled(kind: type[msgspec.Struct]) -> Any:
    """Return an object whose every text is hostile, as deep as its type goes."""
    schema = msgspec.json.schema(kind)
    return msgspec.convert(_filled(schema, schema["$defs"]), kind)


def _filled(schema: dict[str, Any], known: dict[str, Any]) -> Any:
    if reference := schema.get("$ref"):
        return _filled(known[reference.rpartition("/")[2]], known)
    if options := schema.get("anyOf"):
        return _filled(options[0], known)
    kind = schema.get("type", "null")
    if kind in PLAIN:
        return PLAIN[kind]
    if kind == "array":
        return [_filled(schema["items"], known)] if schema.get("items") else []
    if extra := schema.get("additionalProperties"):
        return {EVIL: _filled(extra, known)} if isinstance(extra, dict) else {}
    return {name: _filled(one, known) for name, one in schema.get("properties", {}).items()}


def test_the_objects_of_these_tests_are_hostile() -> None:
    assert filled(ManagedNode).status.interfaces[EVIL].ipv4 == [EVIL]
    assert filled(ConfigSet).spec.files[0].path == EVIL
    assert filled(core.Event).message == EVIL


def test_descriptions() -> None:
    events = [filled(core.Event)]
    for shown in (
        node.render(filled(ManagedNode), events, NOW),
        configset.render(filled(ConfigSet), events, NOW),
    ):
        assert "evil" in shown
        assert steered(shown) == []


def test_the_local_status() -> None:
    shown = status_view.text(filled(Snapshot), NOW)
    assert "evil" in shown
    assert steered(shown) == []
    assert steered(status_view.known_from_disk([filled(Owed)], 1, NOW, output.PLAIN)) == []
    assert filled(SetState).name == EVIL


def test_tables() -> None:
    lines = output.TableWriter([EVIL, "AGE"]).lines([[EVIL, "1d"], ["x", EVIL]])
    assert len(lines) == 3
    assert steered("".join(lines)) == []
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize("form", forms.PROGRAMS)
def test_documents_for_programs_are_safe_to_look_at_and_say_the_same(form: str) -> None:
    value = {EVIL: [EVIL, "plain", "line\nline", "\u202e", "größe"], "x": {"y": f"{EVIL}\n"}}
    shown = forms.dump(value, form)
    assert steered(shown) == []
    assert yaml.safe_load(shown) == value


def test_what_was_done_and_what_would_be() -> None:
    one = resources.file_id(f"/{EVIL}")
    results = [Result(one, (), Outcome.FAILED, EVIL)]
    assert steered("\n".join(converging.report(results, output.PLAIN))) == []
    link = steps.MakeLink(
        id=one, sources=(EVIL,), reason=EVIL, path=f"/{EVIL}", target=EVIL, before=FileFact(), uid=0, gid=0
    )
    install = steps.InstallPackage(id=one, sources=(), reason=EVIL, name=EVIL, version=EVIL)
    tree = Tree("/")
    try:
        shown = list(plan_view.lines([link, install], tree, output.PLAIN))
    finally:
        tree.close()
    assert steered("\n".join(shown)) == []
    assert not any("\n" in line for line in shown)
