"""Every kind of credential, from a kubeconfig file through our transport, judged by a real API server."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.client.auth import incluster, kubeconfig, kubeconfig_types
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http import transport
from nodemanager.host.process import runner
from support import apiserver, scripts

REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
SERVICE_ACCOUNT = "system:serviceaccount:default:default"


async def who_am_i(config: ClientConfig) -> dict[str, Any]:
    """Ask the server who it takes us for."""
    pool = transport.HttpTransport(config)
    try:
        response = await pool.send(
            transport.Request(
                "POST",
                "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                json.dumps(REVIEW).encode(),
                {"content-type": "application/json"},
            )
        )
        body = await transport.read_all(response)
        await response.close()
    finally:
        await pool.close()
    assert response.status == 201, body
    info: dict[str, Any] = msgspec.json.decode(body)["status"]["userInfo"]
    return info


@pytest.fixture
def token(kube: apiserver.ApiServer) -> str:
    """A real token of a service account."""
    kube.kubectl("create", "serviceaccount", "default", check=False)
    return kube.kubectl("create", "token", "default").stdout.strip()


def as_user(kube: apiserver.ApiServer, path: Path, **user: Any) -> ClientConfig:
    """Return the administrator's kubeconfig with another user entry."""
    cluster = msgspec.yaml.decode(kube.kubeconfig.read_bytes())["clusters"]
    document = {
        "current-context": "x",
        "clusters": cluster,
        "contexts": [{"name": "x", "context": {"cluster": "test", "user": "x"}}],
        "users": [{"name": "x", "user": user}],
    }
    path.write_text(json.dumps(document))
    return kubeconfig.load(path=str(path), environ={"PATH": "/usr/bin:/bin"}, run=runner.run)


def admin(kube: apiserver.ApiServer) -> dict[str, Any]:
    user: dict[str, Any] = msgspec.yaml.decode(kube.kubeconfig.read_bytes())["users"][0]["user"]
    return user


async def test_client_certificate(kube: apiserver.ApiServer) -> None:
    config = kubeconfig.load(path=str(kube.kubeconfig), environ={}, run=runner.run)
    seen = await who_am_i(config)
    assert seen["username"] == "admin"
    assert "system:masters" in seen["groups"]


async def test_token_file(kube: apiserver.ApiServer, tmp_path: Path, token: str) -> None:
    (tmp_path / "token").write_text(token + "\n")
    seen = await who_am_i(as_user(kube, tmp_path / "config", tokenFile="token"))
    assert seen["username"] == SERVICE_ACCOUNT


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_plugin_with_a_token(
    kube: apiserver.ApiServer, tmp_path: Path, token: str, version: str
) -> None:
    command = scripts.write_plugin(tmp_path / "plugin", scripts.exec_credential(version, token=token))
    plugin = {
        "command": command,
        "apiVersion": f"client.authentication.k8s.io/{version}",
        "interactiveMode": "Never",
    }
    seen = await who_am_i(as_user(kube, tmp_path / "config", exec=plugin))
    assert seen["username"] == SERVICE_ACCOUNT


async def test_plugin_with_a_certificate(kube: apiserver.ApiServer, tmp_path: Path) -> None:
    leaf = kube.ca.issue_cert("x.test", common_name="from-plugin")
    answer = scripts.exec_credential(
        clientCertificateData=leaf.cert_chain_pems[0].bytes().decode(),
        clientKeyData=leaf.private_key_pem.bytes().decode(),
    )
    plugin = {
        "command": scripts.write_plugin(tmp_path / "plugin", answer),
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": "IfAvailable",
    }
    seen = await who_am_i(as_user(kube, tmp_path / "config", exec=plugin))
    assert seen["username"] == "from-plugin"


async def test_every_group_and_extra_of_an_impersonation(kube: apiserver.ApiServer, tmp_path: Path) -> None:
    other = {
        "as": "jane",
        "as-uid": "42",
        "as-groups": ["devs", "ops", "qa"],
        "as-user-extra": {"example.com/team": ["x", "y"]},
    }
    seen = await who_am_i(as_user(kube, tmp_path / "config", **admin(kube), **other))
    assert (seen["username"], seen["uid"]) == ("jane", "42")
    assert {"devs", "ops", "qa"} <= set(seen["groups"])
    assert seen["extra"]["example.com/team"] == ["x", "y"]


async def test_service_account_of_a_pod(kube: apiserver.ApiServer, tmp_path: Path, token: str) -> None:
    (tmp_path / "token").write_text(token)
    (tmp_path / "ca.crt").write_bytes(kube.ca.cert_pem.bytes())
    host, _, port = kube.server.removeprefix("https://").partition(":")
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    seen = await who_am_i(incluster.load(environ=environ, folder=tmp_path))
    assert seen["username"] == SERVICE_ACCOUNT


def test_kubectl_merges_files_the_same_way(kube: apiserver.ApiServer, tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.write_text("users: [{name: admin, user: {as: jane}}]\ncontexts: null\n")
    listed = f"{first}:{tmp_path / 'missing'}:{kube.kubeconfig}"
    environ = {"KUBECONFIG": listed, "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    view = ["kubectl", "config", "view", "--raw", "-o", "json"]
    done = subprocess.run(view, env=environ, capture_output=True, timeout=60, check=True)
    theirs = json.loads(done.stdout)
    ours = kubeconfig.read(environ=environ)
    assert ours.current_context == theirs["current-context"] == "admin"
    assert list(ours.users) == [user["name"] for user in theirs["users"]]
    assert theirs["users"][0]["user"] == {"as": "jane"}  # of one name, only the entry of the first file
    assert ours.users["admin"][1] == kubeconfig_types.KubeconfigUser(impersonate="jane")
    assert ours.clusters["test"][1].server == theirs["clusters"][0]["cluster"]["server"]
