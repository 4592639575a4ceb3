"""What people are told when the API is not there, does not know us, or lacks our kinds."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from pathlib import Path

import pytest

from nodemanager.cli import host_credential
from nodemanager.cli.settings import connect
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.auth.credentials import BearerToken
from nodemanager.kube import errors
from support import cli, kubeconfigs
from support.scripted_server import Exchange, serve


async def unknown_kind(exchange: Exchange) -> None:
    await exchange.answer(404, b"404 page not found\n")


async def no_such_object(exchange: Exchange) -> None:
    details = {"name": "nope", "kind": "managednodes"}
    status = {"code": 404, "reason": "NotFound", "message": "nope not found", "details": details}
    await exchange.json(status, 404)


async def unauthorized(exchange: Exchange) -> None:
    await exchange.refuse(401, "Unauthorized", "Unauthorized")


def test_a_host_that_joined_is_told_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own"
    monkeypatch.setattr(connect, "host_kubeconfig_path", lambda: own)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert str(own) not in cli.run("get", "mn").stderr
    own.write_text("")
    ran = cli.run("get", "mn")
    assert ran.code == 1
    assert ran.stderr.startswith("error: cannot find an API server: ")
    assert ran.stderr.endswith(f"; the one that this host joined with is {own}\n")
    assert str(own) not in cli.run("get", "mn", "--kubeconfig", str(tmp_path / "other")).stderr


async def test_a_plan_of_a_host_that_joined_needs_no_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a plan of this very host; and only if nobody names another credential."""
    own = tmp_path / "own" / "kubeconfig"
    monkeypatch.setattr(connect, "host_kubeconfig_path", lambda: own)
    async with serve(unauthorized) as server:
        own.parent.mkdir()
        cli.kubeconfig(server.url, own.parent)
        monkeypatch.delenv("KUBECONFIG", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        ran = await asyncio.to_thread(cli.run, "plan")
        assert f"does not accept the credential of context 'main' of {own}" in ran.stderr
    ran = await asyncio.to_thread(cli.run, "plan", "--root", str(tmp_path))
    assert ran.stderr.startswith("error: cannot find an API server: ")
    ran = await asyncio.to_thread(cli.run, "plan", "--kubeconfig", str(tmp_path / "other"))
    assert (ran.code, str(own) in ran.stderr) == (1, False)


async def test_a_plan_of_a_cluster_without_our_kinds(tmp_path: Path) -> None:
    async with serve(unknown_kind) as server:
        ran = await cli.run_against(server, tmp_path, "plan", "--root", str(tmp_path))
    assert ran.code == 1
    assert ran.stderr.endswith("teach it with: nodemanager crds --install\n")


@pytest.mark.parametrize("argv", [["get", "mn"], ["describe", "mn", "x"], ["crds", "--install"], ["plan"]])
async def test_a_credential_that_is_not_accepted(tmp_path: Path, argv: list[str]) -> None:
    async with serve(unauthorized) as server:
        ran = await cli.run_against(server, tmp_path, *argv)
    assert ran.code == 1
    assert f"does not accept the credential of context 'main' of {tmp_path}/kubeconfig" in ran.stderr
    assert "expired" in ran.stderr


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound, and not listening
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        ran = cli.run("get", "mn", "--kubeconfig", cli.kubeconfig(url, tmp_path))
    assert ran.code == 1
    assert ran.stderr.endswith(f": cannot reach {url}: Connection refused\n")


def token_of(account: str) -> str:
    """Return a token that says whose it is, signed by nobody."""
    claims = {"sub": f"system:serviceaccount:{account}", "iat": 1, "exp": 2**40}
    return ".".join(["e30", base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("="), "x"])


@pytest.mark.parametrize(
    ("account", "hint"),
    [
        ("nodemanager:nodemanager-web1", "it is that of web1; if this host is web1, add --hostname web1"),
        ("nodemanager:nodemanager-web2", ""),
        ("nodemanager:ci", ""),
        ("nodemanager-prod:nodemanager-web1", ""),
        ("nodemanager-prod:ci", ""),
    ],
)
def test_a_credential_that_is_refused_may_be_that_of_another_host(account: str, hint: str) -> None:
    config = ClientConfig("https://127.0.0.1:1", credentials=BearerToken(token_of(account)))
    said = ""
    try:
        host_credential.check_whose(config, "web2", "nodemanager")
    except errors.ConfigError as error:
        said = str(error)
    assert hint in said
    assert bool(hint) is bool(said)


def test_bootstrap_on_a_host_where_the_api_is_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As with a kubeconfig of the machine that the API runs on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        cluster = {"server": f"http://127.0.0.1:{taken.getsockname()[1]}"}
        given = kubeconfigs.write(tmp_path / "given", kubeconfigs.build(cluster=cluster, user={"token": "t"}))
        argv = ["--kubeconfig", str(tmp_path / "own"), "--hostname", "web1"]
        Path(given).chmod(0o644)
        ran = cli.run("bootstrap", "--bootstrap-kubeconfig", given, *argv)
    assert ran.code == 1
    assert "127.0.0.1 is this host itself" in ran.stderr
    assert caplog.text.count("that others can read") == 1
    assert "Connection refused" in ran.stderr


def test_a_token_for_a_folder_that_is_not_there(tmp_path: Path) -> None:
    given = cli.kubeconfig("http://127.0.0.1:1", tmp_path)
    out = tmp_path / "tpyo" / "web1.kubeconfig"
    ran = cli.run("token", "--hostname", "web1", "--kubeconfig", given, "--out", str(out))
    assert ran.code == 1
    assert ran.stderr == f"error: cannot write {out}: there is no folder {out.parent}\n"
    assert not out.parent.exists()


@pytest.mark.parametrize("flags", [(), ("--take-back",)])
async def test_orphans_of_a_host_that_is_not_there(flags: tuple[str, ...], tmp_path: Path) -> None:
    async with serve(no_such_object) as server:
        ran = await cli.run_against(server, tmp_path, "orphans", "nope", *flags)
    assert ran.code == 1
    assert "nope: there is no such host in namespace nodemanager; see nodemanager get mn -A" in ran.stderr
