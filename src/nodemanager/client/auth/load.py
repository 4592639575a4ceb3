"""Find the API to talk to: a kubeconfig that was named, the pod we run in, or the usual kubeconfig."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from nodemanager.client.auth import incluster, kubeconfig
from nodemanager.client.auth.commands import CommandRunner
from nodemanager.client.auth.config import ClientConfig
from nodemanager.kube.errors import ConfigError

log = logging.getLogger(__name__)


def discover(
    *,
    path: str = "",
    context: str = "",
    environ: Mapping[str, str],
    run: CommandRunner,
    folder: Path = incluster.FOLDER,
) -> ClientConfig:
    """Return the configuration to use, or raise ConfigError that names every way to give one.

    Contexts exist only in kubeconfigs: a user who names one does not mean the pod they are in.
    """
    if not path and not context and not environ.get("KUBECONFIG") and incluster.available(environ, folder):
        return incluster.load(environ=environ, folder=folder)
    found = kubeconfig.read(path=path, environ=environ)
    if not found.files:
        raise ConfigError(_nothing_found(environ, folder))
    for warning in found.warnings:
        log.warning("%s", warning)
    return kubeconfig.client_config(found, context=context, environ=environ, run=run)


def _nothing_found(environ: Mapping[str, str], folder: Path) -> str:
    files = ", ".join(str(file) for file in kubeconfig.candidates(environ))
    if environ.get("KUBECONFIG"):
        looked = f"KUBECONFIG names {files}, which does not exist"
    elif files:
        looked = f"KUBECONFIG is not set and {files} does not exist"
    else:
        looked = "neither KUBECONFIG nor HOME is set"
    if incluster.announced(environ):
        pod = f"this is a pod without a token in {folder}"
    else:
        pod = "this is not a pod"
    return (
        f"cannot find an API server: {looked}, and {pod}; name a kubeconfig with --kubeconfig FILE,"
        " set KUBECONFIG (or create ~/.kube/config), or run in a pod that has a service account"
    )
