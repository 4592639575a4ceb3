"""The service account of a pod."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodemanager.client.auth import incluster
from nodemanager.kube.errors import ConfigError
from support import pems

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """A folder as a kubelet mounts it."""
    (tmp_path / "token").write_text("sa-token\n")
    (tmp_path / "ca.crt").write_bytes(pems.make().ca)
    (tmp_path / "namespace").write_text("kube-system\n")
    return tmp_path


async def test_configuration(account: Path) -> None:
    config = incluster.load(environ=POD, folder=account)
    assert (config.server, config.namespace, config.ca) == (
        "https://10.0.0.1:443",
        "kube-system",
        pems.make().ca,
    )
    assert config.source == "the service account of this pod"
    assert await config.credentials.headers() == {"Authorization": "Bearer sa-token"}


async def test_rotated_token_is_picked_up(account: Path) -> None:
    credentials = incluster.load(environ=POD, folder=account).credentials
    (account / "token").write_text("renewed")
    assert await credentials.refresh()
    assert await credentials.headers() == {"Authorization": "Bearer renewed"}


@pytest.mark.parametrize(
    ("host", "server"),
    [
        ("fd00::1", "https://[fd00::1]:443"),
        ("[fd00::1]", "https://[fd00::1]:443"),
        ("10.0.0.1", "https://10.0.0.1:443"),
        ("kubernetes.default.svc", "https://kubernetes.default.svc:443"),
    ],
)
def test_server(account: Path, host: str, server: str) -> None:
    assert incluster.load(environ={**POD, "KUBERNETES_SERVICE_HOST": host}, folder=account).server == server


def test_namespace_of_the_environment_wins(account: Path) -> None:
    assert incluster.load(environ={**POD, "POD_NAMESPACE": "mine"}, folder=account).namespace == "mine"


@pytest.mark.parametrize("content", [None, " \n"])
def test_namespace_is_optional(account: Path, content: str | None) -> None:
    (account / "namespace").unlink()
    if content is not None:
        (account / "namespace").write_text(content)
    assert incluster.load(environ=POD, folder=account).namespace == "default"


def test_proxy_of_the_environment(account: Path) -> None:
    environ = {**POD, "HTTPS_PROXY": "http://p:1"}
    assert incluster.load(environ=environ, folder=account).proxy == "http://p:1"
    assert incluster.load(environ={**environ, "NO_PROXY": "10.0.0.0/8"}, folder=account).proxy == ""


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        pytest.param({}, "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set", id="no pod"),
        pytest.param({"KUBERNETES_SERVICE_PORT": "x"}, "'x' is not a port", id="port"),
        pytest.param({"KUBERNETES_SERVICE_PORT": "99999"}, "'99999' is not a port", id="large port"),
        pytest.param({"KUBERNETES_SERVICE_HOST": "a b"}, "'a b' is neither an address nor a name", id="host"),
        pytest.param({"KUBERNETES_SERVICE_HOST": "x@y"}, "'x@y' is neither", id="user in host"),
    ],
)
def test_unusable_environment(account: Path, environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        incluster.load(environ={**POD, **environ} if environ else {}, folder=account)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        pytest.param("token", None, "cannot read the token file .*/token: No such file", id="no token"),
        pytest.param("token", "", "cannot use the token file .*/token: it is empty", id="empty token"),
        pytest.param("ca.crt", None, "the certificate authority of this pod .*: No such file", id="no CA"),
        pytest.param("ca.crt", "x", "/ca.crt: there is no PEM certificate", id="CA is not PEM"),
    ],
)
def test_broken_account(account: Path, file: str, content: str | None, message: str) -> None:
    (account / file).unlink()
    if content is not None:
        (account / file).write_text(content)
    with pytest.raises(ConfigError, match=message):
        incluster.load(environ=POD, folder=account)


def test_available(account: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert incluster.available(POD, account)
    assert not incluster.available({}, account)
    assert not incluster.available({"KUBERNETES_SERVICE_HOST": "x"}, account)
    assert not incluster.available(POD, tmp_path_factory.mktemp("empty"))
