"""`nodemanager get` against a scripted server: what it asks for, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nodemanager.cli.views import tables
from nodemanager.kube import manifests
from support import cli
from support.scripted_server import Exchange, Handler, serve

NODES = "/apis/common.nodemanager/v1/namespaces/nodemanager/managednodes"
LISTED = {"metadata": {"resourceVersion": "7"}}
OBJECT: dict[str, Any] = {
    "metadata": {"name": "web1", "namespace": "nodemanager", "managedFields": [{"manager": "x"}]},
    "spec": {"domain": "example.net"},
}


async def get(handler: Handler, folder: Path, *args: str) -> tuple[cli.Ran, list[Exchange]]:
    async with serve(handler) as server:
        return await cli.run_against(server, folder, "get", *args), server.requests


def answering(*answers: Any) -> Handler:
    """Return a handler that gives one answer after the other."""
    left = list(answers)

    async def handler(exchange: Exchange) -> None:
        await exchange.json(left.pop(0))

    return handler


async def test_the_server_lays_out_the_table(tmp_path: Path) -> None:
    ran, (asked,) = await get(answering(cli.table("web1", "db1")), tmp_path, "mn")
    assert ran == cli.Ran(0, "NAME   READY   AGE\nweb1   True    5m\ndb1    True    5m\n", "")
    assert (asked.method, asked.target) == ("GET", f"{NODES}?limit=500")
    assert asked.headers["accept"] == tables.ACCEPT


async def test_wide_shows_all_columns_and_everywhere_the_namespace(tmp_path: Path) -> None:
    ran, (asked,) = await get(answering(cli.table("web1")), tmp_path, "mn", "-o", "wide", "-A")
    assert ran.stdout.splitlines() == [
        "NAMESPACE     NAME   READY   AGE   REASON",
        "nodemanager   web1   True    5m    Applied",
    ]
    assert asked.target.startswith("/apis/common.nodemanager/v1/managednodes?")


async def test_pages_become_one_table(tmp_path: Path) -> None:
    answers = [cli.table("a", next_page="next"), cli.table("a-longer-name", columns=False)]
    ran, asked = await get(answering(*answers), tmp_path, "mn")
    assert ran.stdout.splitlines() == [
        "NAME            READY   AGE",
        "a               True    5m",
        "a-longer-name   True    5m",
    ]
    assert asked[1].query == {"limit": "500", "continue": "next"}


async def test_an_expired_page_begins_anew(tmp_path: Path) -> None:
    async def handler(exchange: Exchange) -> None:
        if "continue" in exchange.query:
            await exchange.refuse(410, "Expired")
        elif "limit" in exchange.query:
            await exchange.json(cli.table("a", next_page="next"))
        else:
            await exchange.json(cli.table("b", "c"))

    ran, asked = await get(handler, tmp_path, "mn")
    assert [line.split()[0] for line in ran.stdout.splitlines()] == ["NAME", "b", "c"]
    assert len(asked) == 3


async def test_odd_cells(tmp_path: Path) -> None:
    table = cli.table("web1")
    table["rows"][0]["cells"] = ["a\nb\x1b", None, "2001-01-01T00:00:00Z"]
    ran, _ = await get(answering(table), tmp_path, "mn", "-o", "wide")
    (_, row) = ran.stdout.splitlines()
    cells = row.split("   ")
    assert cells[:2] == ["a b?", "<none>"]
    assert cells[2].strip().endswith("y")  # a date that the server left to us
    assert cells[-1].strip() == "<none>"


async def test_several_kinds_are_told_apart(tmp_path: Path) -> None:
    ran, asked = await get(answering(cli.table("web1"), cli.table("base")), tmp_path, "mn,cs")
    assert [line.split()[:1] for line in ran.stdout.splitlines()] == [
        ["NAME"],
        ["mn/web1"],
        [],
        ["NAME"],
        ["cset/base"],
    ]
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param([], "No resources found in nodemanager namespace.\n", id="default-namespace"),
        pytest.param(["-n", "lab"], "No resources found in lab namespace.\n", id="namespace"),
        pytest.param(["-A"], "No resources found.\n", id="everywhere"),
    ],
)
async def test_nothing_found_is_said_on_stderr(tmp_path: Path, args: Sequence[str], message: str) -> None:
    ran, _ = await get(answering(cli.table()), tmp_path, "mn", *args)
    assert ran == cli.Ran(0, "", message)


async def test_the_namespace_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODEMANAGER_NAMESPACE", "lab")
    ran, (asked,) = await get(answering(cli.table()), tmp_path, "mn", "-l", "a in (b,c)")
    assert "in lab namespace" in ran.stderr
    assert "/namespaces/lab/" in asked.target
    assert asked.query["labelSelector"] == "a in (b,c)"


async def test_named_objects_and_those_that_are_missing(tmp_path: Path) -> None:
    async def handler(exchange: Exchange) -> None:
        name = exchange.target.rsplit("/", 1)[1]
        if name == "nope":
            details = {"name": name, "kind": "managednodes"}
            status = {"code": 404, "reason": "NotFound", "message": f"{name} not found", "details": details}
            await exchange.json(status, 404)
        else:
            await exchange.json(cli.table(name))

    ran, asked = await get(handler, tmp_path, "mn", "web1", "nope", "db1")
    assert ran.code == 1
    assert [line.split()[0] for line in ran.stdout.splitlines()] == ["NAME", "web1", "db1"]
    assert ran.stderr.startswith("error: cannot get managednodes.common.nodemanager nodemanager/nope:")
    assert [exchange.target for exchange in asked] == [f"{NODES}/{name}" for name in ("web1", "nope", "db1")]
    ran, _ = await get(handler, tmp_path, "mn", "nope", "-o", "json")
    assert (ran.code, ran.stdout) == (1, "")


@pytest.mark.parametrize("args", [["mn"], ["mn", "web1"], ["mn", "-w"], ["mn", "web1", "-o", "yaml"]])
async def test_a_missing_crd_says_how_to_install_it(tmp_path: Path, args: list[str]) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.answer(404, b"404 page not found\n")

    ran, _ = await get(handler, tmp_path, *args)
    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: cannot read managednodes.common.nodemanager: ")
    assert "nodemanager crds --install" in ran.stderr


async def test_whole_objects(tmp_path: Path) -> None:
    stored = {"apiVersion": "common.nodemanager/v1", "kind": "ManagedNode", **OBJECT}
    bare = {**stored, "metadata": {"name": "web1", "namespace": "nodemanager"}}
    ran, (asked,) = await get(answering(stored), tmp_path, "mn", "web1", "-o", "yaml")
    assert manifests.load_all(ran.stdout, "stdout") == [bare]
    assert asked.headers["accept"] == "application/json"
    page = {"items": [OBJECT, OBJECT], "metadata": {"resourceVersion": "7"}}
    ran, _ = await get(answering(page), tmp_path, "mn", "-o", "json")
    assert json.loads(ran.stdout) == {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [bare] * 2}
    ran, _ = await get(answering(LISTED | {"items": []}), tmp_path, "mn", "-o", "yaml")
    assert manifests.load_all(ran.stdout, "stdout") == []
    assert (ran.code, ran.stderr) == (0, "")


async def test_names_can_be_given_back(tmp_path: Path) -> None:
    ran, _ = await get(answering(LISTED | {"items": [OBJECT]}), tmp_path, "mn", "-o", "name")
    assert ran.stdout == "managednode.common.nodemanager/web1\n"
    again, (asked,) = await get(answering(cli.table("web1")), tmp_path, ran.stdout.strip())
    assert again.code == 0
    assert asked.target == f"{NODES}/web1"


async def test_a_server_without_tables(tmp_path: Path) -> None:
    ran, _ = await get(
        answering(LISTED | {"kind": "ManagedNodeList", "items": [OBJECT]}),
        tmp_path,
        "mn",
    )
    assert ran.code == 1
    assert "does not serve tables; use -o yaml" in ran.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param([], "Missing argument", id="no-kind"),
        pytest.param(["mn", "a", "-A"], "give NAME or --all-namespaces", id="name-everywhere"),
        pytest.param(["mn", "a", "-l", "a=b"], "give NAME or --selector", id="name-and-selector"),
        pytest.param(["mn", "a", "b", "-w"], "only one kind, or one object", id="watch-two"),
        pytest.param(["mn,cs", "-w"], "only one kind, or one object", id="watch-two-kinds"),
        pytest.param(["mn", "-l", "a=b c"], "cannot read selector 'a=b c'", id="selector"),
        pytest.param(["mn", "-n", ""], "it is empty", id="empty-namespace"),
        pytest.param(["mn", "-o", "xml"], "xml", id="output"),
    ],
)
def test_wrong_usage(args: list[str], message: str) -> None:
    ran = cli.run("get", *args)
    assert (ran.code, ran.stdout) == (2, "")
    assert message in ran.stderr


async def test_a_forbidden_list_names_verb_and_resource(tmp_path: Path) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.refuse(403, "Forbidden", "no")

    ran, _ = await get(handler, tmp_path, "mn")
    assert ran.code == 1
    assert "cannot list managednodes.common.nodemanager" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
