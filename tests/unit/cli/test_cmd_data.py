"""`nodemanager data`, and how `plan` and `apply` know the data of manifests."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import cli
from support.agent_process import owned
from support.root_tree import needs_root

SECRET = "correct-horse"
OURS = "common.nodemanager/v1"


def obj(version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


def site(host: str) -> list[dict[str, Any]]:
    refs = [
        {"configMapRef": {"name": "defaults"}},
        {"secretRef": {"name": "passwords"}},
        {"configMapRef": {"name": "db"}, "nodeSelector": {"matchLabels": {"role": "db"}}},
    ]
    files = [
        owned("/etc/app", template="{{ .Data.app.port }}\n", mode="0644"),
        owned("/etc/db", template="{{ .Data.db.password }}\n"),
    ]
    return [
        obj(OURS, "ConfigSet", "site", spec={"nodeSelector": {}, "dataFrom": refs, "files": files}),
        obj(
            "v1",
            "ConfigMap",
            "defaults",
            data={"data.yaml": "app: {port: 80}\ndb: {user: shop, password: none}\n"},
        ),
        obj("v1", "Secret", "passwords", stringData={"data.yaml": f"db: {{password: {SECRET}}}\n"}),
        obj(OURS, "ManagedNode", host, spec={"data": {"app": {"port": 8080}}}),
    ]


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "site.yaml").write_text(yaml.safe_dump_all(site("web1")))
    (tmp_path / "root" / "etc").mkdir(parents=True)
    return folder


def data(folder: Path, *more: str, host: str = "web1") -> cli.Ran:
    return cli.run("data", host, "-f", str(folder), *more)


def test_each_value_is_told_with_its_layer(folder: Path) -> None:
    ran = data(folder)
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout == (
        "KEY           VALUE      FROM                 OVER\n"
        "app.port      8080       ManagedNode web1     ConfigMap defaults\n"
        "db.password   <secret>   Secret passwords     ConfigMap defaults\n"
        "db.user       shop       ConfigMap defaults   <none>\n"
    )


def test_a_key_is_explained(folder: Path) -> None:
    ran = data(folder, "--explain", "db.password")
    assert ran.stdout == (
        "EFFECT   LAYER                DECLARED IN                  VALUE\n"
        "wins     Secret passwords     dataFrom of ConfigSet site   <secret>\n"
        "loses    ConfigMap defaults   dataFrom of ConfigSet site   none\n"
    )
    assert json.loads(data(folder, "--explain", "app.port", "-o", "json").stdout)["statements"] == [
        {
            "effect": "wins",
            "layer": {"kind": "ManagedNode", "name": "web1"},
            "key": "app.port",
            "value": 8080,
        },
        {
            "effect": "loses",
            "layer": {"kind": "ConfigMap", "name": "defaults", "configSet": "site"},
            "key": "app.port",
            "value": 80,
        },
    ]
    ran = data(folder, "--explain", "app.prot")
    assert (ran.code, ran.stdout) == (1, "")
    assert (
        "cannot explain app.prot of web1: no layer says anything of it; at the top there are app, db"
        in ran.stderr
    )


def test_for_programs(folder: Path) -> None:
    found = json.loads(data(folder, "-o", "json").stdout)
    assert found["data"] == {"app": {"port": 8080}, "db": {"password": "<secret>", "user": "shop"}}
    assert [one["name"] for one in found["layers"]] == ["defaults", "passwords", "web1"]
    assert yaml.safe_load(data(folder, "-o", "yaml").stdout) == found


def test_what_is_missing_broken_or_odd_is_told(folder: Path) -> None:
    node = obj(OURS, "ManagedNode", "db1", spec={"data": {"db": "none"}})
    node["metadata"]["labels"] = {"role": "db"}
    (folder / "more.yaml").write_text(yaml.safe_dump(node))
    ran = data(folder, host="db1")
    assert ran.code == 0
    assert ran.stderr == (
        "warning: ConfigMap db is left out: nothing declares it\n"
        "warning: db in ManagedNode db1 replaces something of another kind in Secret passwords\n"
    )
    (folder / "db.yaml").write_text(yaml.safe_dump(obj("v1", "ConfigMap", "db", data={"a.yaml": "["})))
    ran = data(folder, host="db1")
    assert (ran.code, ran.stdout) == (1, "")
    assert "cannot show the data of db1: cannot use ConfigMap db as data: cannot read a.yaml: " in ran.stderr
    assert "no manifest has a ManagedNode of this name; there are db1, web1" in data(folder, host="x").stderr


def test_secrets_are_for_root_on_the_host_itself(folder: Path) -> None:
    ran = data(folder, "--show-secrets")
    assert (ran.code, ran.stdout) == (1, "")
    assert "cannot show secrets of web1: that is for root on the host itself" in ran.stderr


@needs_root
def test_root_on_the_host_sees_secrets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "web1", "6", "1", "x86_64")))
    assert SECRET in data(folder, "--show-secrets").stdout
    assert SECRET not in data(folder).stdout


def test_plan_and_apply_know_it(folder: Path, tmp_path: Path) -> None:
    here = ("-f", str(folder), "--root", str(tmp_path / "root"), "--hostname", "web1")
    planned = cli.run("plan", *here)
    assert planned.code == 2
    assert "+8080" in planned.stdout
    assert SECRET not in planned.stdout + planned.stderr
    assert cli.run("apply", *here).code == 0
    assert (tmp_path / "root/etc/app").read_text() == "8080\n"
    assert (tmp_path / "root/etc/db").read_text() == f"{SECRET}\n"
    assert (tmp_path / "root/etc/db").stat().st_mode & 0o077 == 0
