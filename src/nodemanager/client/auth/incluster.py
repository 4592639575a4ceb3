"""The configuration of a process that runs in a pod: its service account."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path

from nodemanager.client.auth import credential_files
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http import proxy_env
from nodemanager.kube.errors import ConfigError

FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where kubelets mount the service account of a pod."""
HOST_VARIABLE = "KUBERNETES_SERVICE_HOST"
PORT_VARIABLE = "KUBERNETES_SERVICE_PORT"


def announced(environ: Mapping[str, str]) -> bool:
    """Tell whether the environment is that of a pod."""
    return bool(environ.get(HOST_VARIABLE) and environ.get(PORT_VARIABLE))


def available(environ: Mapping[str, str], folder: Path = FOLDER) -> bool:
    """Tell whether this is a pod that has a service account."""
    return announced(environ) and (folder / "token").is_file()


def load(*, environ: Mapping[str, str], folder: Path = FOLDER) -> ClientConfig:
    """Return the configuration of this pod; its token is read again as the kubelet renews it."""
    if not announced(environ):
        raise ConfigError(
            f"cannot use the service account of this pod: {HOST_VARIABLE} and {PORT_VARIABLE} are not set,"
            " so this is not a pod; use --kubeconfig"
        )
    token = credential_files.TokenFile(folder / "token")
    token.prime()
    ca = credential_files.read_credential(folder / "ca.crt", "the certificate authority of this pod")
    credential_files.check_certificate(ca, str(folder / "ca.crt"))
    server = _server(environ[HOST_VARIABLE], environ[PORT_VARIABLE])
    return ClientConfig(
        server=server,
        namespace=environ.get("POD_NAMESPACE") or _namespace(folder) or "default",
        ca=ca,
        proxy=proxy_env.from_environment(server, environ),
        credentials=token,
        source="the service account of this pod",
    )


def _server(host: str, port: str) -> str:
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        raise ConfigError(f"cannot use {PORT_VARIABLE}: {port!r} is not a port")
    bare = host.removeprefix("[").removesuffix("]")
    try:
        if ipaddress.ip_address(bare).version == 6:
            return f"https://[{bare}]:{port}"
    except ValueError:  # a name, then
        if not all(char.isascii() and (char.isalnum() or char in "-._") for char in host):
            raise ConfigError(
                f"cannot use {HOST_VARIABLE}: {host!r} is neither an address nor a name"
            ) from None
    return f"https://{host}:{port}"


def _namespace(folder: Path) -> str:
    try:
        data = credential_files.read_credential(folder / "namespace", "the namespace of this pod")
    except ConfigError:
        return ""
    return data.decode("utf-8", "replace").strip()
