"""What the commands about maintenances refuse before they ask any API, and what their help teaches."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from nodemanager.cli.commands.maintenance.group import command
from support import cli
from support.scripted_server import Exchange, serve


@pytest.mark.parametrize("name", sorted(command.commands))
def test_every_subcommand_teaches(name: str) -> None:
    ran = cli.run("maintenance", name, "--help")
    assert ran.code == 0
    assert f"  nodemanager maintenance {name}" in ran.stdout
    assert all(len(line) <= 80 for line in ran.stdout.splitlines()), "80 columns are enough"


@pytest.mark.parametrize("name", ["run", "why", "maintenance"])
def test_help_fits_into_80_columns(name: str) -> None:
    ran = cli.run(name, "--help")
    assert [line for line in ran.stdout.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["run", "x", "--now"], "say which hosts are meant: --on SELECTOR, --host NAME or --all-hosts"),
        (["run", "x", "--on", "a=b", "--all-hosts", "--now"], "say which hosts are meant"),
        (["run", "x", "--all-hosts"], "say when: --now, or --window NAME; without a window nothing runs"),
        (["run", "x", "--all-hosts", "--now", "--window", "w"], "say when: --now, or --window NAME"),
        (["run", "x", "--on", "=", "--now"], "'--on'"),
        (["run", "x", "--all-hosts", "--now", "--set", "novalue"], "'novalue' is not NAME=VALUE"),
        (["run", "x", "--all-hosts", "--now", "--set", "a=1", "--set", "a=2"], "a is given twice"),
        (["run", "x", "--all-hosts", "--now", "--max-unavailable", "0"], "'0' is neither a number"),
        (["run", "x", "--all-hosts", "--now", "--max-unavailable", "101%"], "'101%' is neither"),
        (["maintenance", "approve", "x"], "nobody can be asked: this is no terminal; add --yes"),
        (["maintenance", "approve", "x", "--yes", "--hash", "abc"], "'abc' is not 12 to 64 hex"),
        (["maintenance", "pause"], "Missing argument 'NAME...'"),
        (["maintenance", "plan", "x", "-o", "wide"], "'wide' is not one of"),
    ],
)  # fmt: skip
def test_wrong_usage_is_refused_without_an_api(
    args: list[str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    ran = cli.run(*args)
    assert ran.code == 2, ran
    assert why in ran.stderr


async def test_a_cluster_without_our_kinds(tmp_path: Path) -> None:
    async def unknown(exchange: Exchange) -> None:
        await exchange.answer(404, b"404 page not found\n")

    async with serve(unknown) as server:
        for args in (["maintenance", "list"], ["maintenance", "pause", "x"], ["why", "x"],
                     ["run", "x", "--all-hosts", "--now"]):  # fmt: skip
            ran = await cli.run_against(server, tmp_path, *args)
            assert ran.code == 1
            assert ran.stderr.endswith("teach it with: nodemanager crds --install\n"), ran.stderr


async def test_an_api_that_does_not_say_who_we_are(tmp_path: Path) -> None:
    """A cluster before 1.28 has no SelfSubjectReview."""
    run = {"id": "r", "operations": ["x"], "startedAt": "2026-03-02T06:00:00Z"}
    plan = {"plan": {"hash": "a" * 64}, "observedGeneration": 1, "run": run}
    known = {
        "metadata": {"name": "monday", "namespace": "nodemanager", "generation": 1},
        "spec": {"window": {"always": True}, "operations": [], "approval": {"required": True}},
        "status": plan,
    }

    async def old(exchange: Exchange) -> None:
        if "selfsubjectreviews" in exchange.target:
            await exchange.answer(404, b"404 page not found\n")
        elif exchange.target.endswith("/monday"):
            await exchange.json(known)
        else:
            await exchange.json({"items": [], "metadata": {"resourceVersion": "1"}})

    async with serve(old) as server:
        ran = await cli.run_against(server, tmp_path, "maintenance", "approve", "monday", "--yes")
    assert ran.code == 1
    assert "cannot approve monday: the API does not say who you are" in ran.stderr
    assert "Create the MaintenanceApproval with kubectl, with your user name as approver" in ran.stderr
