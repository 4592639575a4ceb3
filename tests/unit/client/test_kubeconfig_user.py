"""User entries of a kubeconfig: which credentials they become."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from nodemanager.client.auth import kubeconfig
from nodemanager.client.auth.config import Credentials, TlsIdentity
from nodemanager.host.process import runner
from nodemanager.kube.errors import ConfigError
from support import kubeconfigs, pems, scripts

ONE = pems.make()
CERTIFICATE = {
    "client-certificate-data": pems.b64(ONE.certificate),
    "client-key-data": pems.b64(ONE.key),
}


def load(tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None) -> Credentials:
    path = kubeconfigs.write(tmp_path / "config", kubeconfigs.build(user=user, cluster=cluster))
    return kubeconfig.load(path=path, environ={"PATH": "/usr/bin:/bin"}, run=runner.run).credentials


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("user", "headers", "certificate"),
    [
        pytest.param({}, {}, False, id="anonymous"),
        pytest.param({"token": "t"}, {"Authorization": "Bearer t"}, False, id="token"),
        pytest.param({"tokenFile": "file"}, {"Authorization": "Bearer filed"}, False, id="token file"),
        pytest.param(
            {"token": "t", "tokenFile": "file"}, {"Authorization": "Bearer filed"}, False, id="file wins"
        ),
        pytest.param(
            {"token": "t", "tokenFile": "missing"}, {"Authorization": "Bearer t"}, False, id="file is missing"
        ),
        pytest.param(
            {"username": "me", "password": "p"}, {"Authorization": basic("me:p")}, False, id="password"
        ),
        pytest.param(CERTIFICATE, {}, True, id="certificate"),
        pytest.param(
            {"client-certificate": "tls.crt", "client-key": "tls.key"}, {}, True, id="certificate files"
        ),
        pytest.param(
            {"client-certificate": "/missing", "client-key": "/missing", **CERTIFICATE},
            {},
            True,
            id="inline wins",
        ),
        pytest.param(
            {"client-certificate-data": pems.b64(ONE.certificate), "client-key": "tls.key"},
            {},
            True,
            id="certificate inline, key in a file",
        ),
        pytest.param({"token": "t", **CERTIFICATE}, {"Authorization": "Bearer t"}, True, id="both"),
        pytest.param(
            {"token": "t", "as": "jane", "as-uid": "7"},
            {"Authorization": "Bearer t", "Impersonate-User": ("jane",), "Impersonate-Uid": ("7",)},
            False,
            id="impersonation",
        ),
        pytest.param(
            {"token": "t", "exec": {"command": "never", "apiVersion": "any"}},
            {"Authorization": "Bearer t"},
            False,
            id="fixed credentials win over a plugin",
        ),
    ],
)
async def test_credentials(
    tmp_path: Path, user: dict[str, Any], headers: dict[str, str], certificate: bool
) -> None:
    (tmp_path / "file").write_text("filed\n")
    (tmp_path / "tls.crt").write_bytes(ONE.certificate)
    (tmp_path / "tls.key").write_bytes(ONE.key)
    credentials = load(tmp_path, user)
    assert await credentials.headers() == headers
    assert await credentials.tls_identity() == (
        TlsIdentity(ONE.certificate, ONE.key) if certificate else None
    )


@pytest.mark.parametrize("server", ["http://x", "x:8080"])
async def test_nothing_secret_is_sent_over_plain_http(tmp_path: Path, server: str) -> None:
    credentials = load(tmp_path, {"token": "t", **CERTIFICATE, "as": "jane"}, {"server": server})
    assert await credentials.headers() == {"Impersonate-User": ("jane",)}
    assert await credentials.tls_identity() is None


@pytest.mark.parametrize(
    ("user", "message"),
    [
        pytest.param({"token": "a", "password": "b"}, "has a token and a password", id="token and password"),
        pytest.param({"tokenFile": "a", "username": "b"}, "has a token and a password", id="file and user"),
        pytest.param({"as-groups": ["g"]}, "as-groups or as-user-extra without as", id="groups without user"),
        pytest.param({"as-uid": "1"}, "without as; name the user in as", id="uid without user"),
        pytest.param({"as-user-extra": {"a": ["b"]}}, "without as", id="extra without user"),
        pytest.param({"client-certificate": "x"}, "client-key is missing; set client-key or", id="no key"),
        pytest.param({"client-key-data": "x"}, "client-certificate is missing", id="no certificate"),
        pytest.param(
            {"tokenFile": "missing"}, "cannot read the token file .*/missing: No such", id="no file"
        ),
        pytest.param({"token": "a b"}, "cannot use the token of user 'main' of .*/config", id="bad token"),
        pytest.param(
            {"client-certificate": "missing", "client-key": "missing"},
            "cannot read client-certificate of user 'main' of .*/config .*/missing: No such file",
            id="no certificate file",
        ),
        pytest.param(
            {**CERTIFICATE, "client-key-data": "?"},
            "client-key-data of user 'main' of .*not base64",
            id="base64",
        ),
        pytest.param(
            {**CERTIFICATE, "client-key-data": pems.b64(b"x")},
            "the client key of user 'main' of .*no PEM private key",
            id="no PEM",
        ),
        pytest.param(
            {"auth-provider": {"name": "gcp", "config": {"access-token": "hunter2"}}},
            "auth-provider 'gcp' is not supported .*use an exec plugin",
            id="auth-provider",
        ),
        pytest.param({"exec": {"apiVersion": "x"}}, "exec of user 'main' of .*command is missing", id="exec"),
    ],
)
def test_refused(tmp_path: Path, user: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load(tmp_path, user)
    assert "hunter2" not in str(caught.value)


def plugin(**fields: Any) -> dict[str, Any]:
    base = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}
    return {"exec": {**base, **fields}}


async def test_plugin_with_a_slash_is_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    scripts.write_plugin(tmp_path / "bin" / "login", scripts.exec_credential(token="from-plugin"))
    credentials = load(tmp_path, {**plugin(command="./bin/login"), "as": "jane"})
    assert await credentials.headers() == {
        "Authorization": "Bearer from-plugin",
        "Impersonate-User": ("jane",),
    }


async def test_plugin_without_a_slash_is_looked_up_in_path_only(tmp_path: Path) -> None:
    scripts.write_plugin(tmp_path / "login-x", scripts.exec_credential(token="t"))
    credentials = load(tmp_path, plugin(command="login-x"))
    with pytest.raises(ConfigError, match=r"login-x of user 'main' of .*: it is not installed"):
        await credentials.headers()


@pytest.mark.parametrize("asked", [True, False])
async def test_what_a_plugin_is_told_about_the_cluster(tmp_path: Path, asked: bool) -> None:
    told = tmp_path / "told"
    script = scripts.write(
        tmp_path / "login",
        f"printf %s \"$KUBERNETES_EXEC_INFO\" > {told}\necho '{scripts.exec_credential(token='t')}'",
    )
    cluster = {
        "certificate-authority-data": pems.b64(ONE.ca),
        "tls-server-name": "name",
        "proxy-url": "http://p:1",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": None}}],
    }
    await load(tmp_path, plugin(command=script, provideClusterInfo=asked), cluster).headers()
    info = json.loads(told.read_text())
    assert (info["apiVersion"], info["kind"]) == ("client.authentication.k8s.io/v1", "ExecCredential")
    assert info["spec"]["interactive"] is False
    assert info["spec"].get("cluster") == (
        {
            "server": "https://main:6443",
            "tls-server-name": "name",
            "certificate-authority-data": pems.b64(ONE.ca),
            "proxy-url": "http://p:1",
            "config": {"audience": None},
        }
        if asked
        else None
    )
