"""Printers: portion after portion, as a watch brings them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.cli import kinds
from nodemanager.cli.sources import ListedObject, TableSource
from nodemanager.cli.views import printers, tables
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.verbs import Client
from nodemanager.kube import manifests
from nodemanager.kube.objects import ObjectKey
from support import cli

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def item(name: str) -> ListedObject:
    return ListedObject(
        ObjectKey("n", name), "1", {"apiVersion": "v1", "kind": "X", "metadata": {"name": name}}
    )


def source() -> TableSource:
    return TableSource(Client(HttpTransport(ClientConfig("http://127.0.0.1:1"))), MANAGED_NODES)


def rows(of: TableSource, table: dict[str, Any], *, deleted: bool = False) -> list[ListedObject]:
    return [each._replace(deleted=deleted) for each in of.items(msgspec.convert(table, tables.Table))]


def test_a_table_goes_on_below_one_heading(capsys: pytest.CaptureFixture[str]) -> None:
    of = source()
    printer = printers.TablePrinter(of, prefix="mn/", clock=lambda: NOW)
    printer.show(rows(of, cli.table("web1")))
    printer.show(rows(of, cli.table("w2", columns=False), deleted=True))
    assert capsys.readouterr().out.splitlines() == [
        "NAME      READY   AGE",
        "mn/web1   True    5m",
        "mn/w2     True    5m (deleted)",
    ]


def test_changed_columns_get_a_new_heading(capsys: pytest.CaptureFixture[str]) -> None:
    of = source()
    printer = printers.TablePrinter(of, clock=lambda: NOW)
    printer.show(rows(of, cli.table("web1")))
    changed = {**cli.table("web1"), "columnDefinitions": [{"name": "Name"}, {"name": "Fine"}]}
    printer.show(rows(of, changed))
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["NAME", "READY", "AGE"],
        ["web1", "True", "5m"],
        ["NAME", "FINE"],
        ["web1", "True"],
    ]


def test_a_date_that_the_server_left_to_us() -> None:
    layout = tables.TableLayout(
        [tables.Column(name="Age", type="date"), tables.Column(name="At", type="string")]
    )
    row = tables.TableRow(cells=["2026-01-02T02:04:05Z", "2026-01-02T02:04:05Z"])
    assert layout.cells(row, NOW) == ["60m", "2026-01-02T02:04:05Z"]


def test_yaml_documents_can_be_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    printer = printers.ObjectPrinter("yaml")
    printer.show([item("a"), item("b")])
    printer.show([item("c")])
    read = manifests.load_all(capsys.readouterr().out, "stdout")
    assert [obj["metadata"]["name"] for obj in read] == ["a", "b", "c"]


def test_json_documents_follow_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    printers.ObjectPrinter("json").show([item("a"), item("b")])
    text = capsys.readouterr().out
    first, end = json.JSONDecoder().raw_decode(text)
    assert first["metadata"]["name"] == "a"
    assert json.loads(text[end:])["metadata"]["name"] == "b"


def test_names(capsys: pytest.CaptureFixture[str]) -> None:
    (kind,) = kinds.find("cs")
    printers.NamePrinter(kind).show([item("a")])
    assert capsys.readouterr().out == "configset.common.nodemanager/a\n"
