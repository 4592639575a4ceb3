"""The kubeconfig of a host: complete in itself, so that it works wherever it is copied to."""

from __future__ import annotations

import base64
from typing import Any, Final

from nodemanager.api.rights import host_rights
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.auth.kubeconfig_types import LABELS_EXTENSION
from nodemanager.kube import errors, manifests

CONTEXT: Final = "nodemanager"


def kubeconfig(config: ClientConfig, hostname: str, namespace: str, token: str) -> bytes:
    """Return a kubeconfig with which a host reaches the API that `config` reaches.

    CA files are inlined; the name to check the server for, the proxy and the host's labels are carried over.
    """
    if not config.server.startswith("https:") and token:
        raise errors.ConfigError(
            f"cannot write a kubeconfig for {config.server}: a token must not travel without TLS"
        )
    cluster: dict[str, Any] = {"server": config.server}
    if config.insecure:
        cluster["insecure-skip-tls-verify"] = True
    elif config.ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(config.ca).decode()
    if config.tls_server_name:
        cluster["tls-server-name"] = config.tls_server_name
    if config.proxy:
        cluster["proxy-url"] = config.proxy
    user = host_rights.account_name(hostname)
    context: dict[str, Any] = {"cluster": CONTEXT, "user": user, "namespace": namespace}
    if config.labels:
        context["extensions"] = [{"name": LABELS_EXTENSION, "extension": dict(config.labels)}]
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "contexts": [{"name": CONTEXT, "context": context}],
        "users": [{"name": user, "user": {"token": token}}],
    }
    return manifests.dump(document).encode()
