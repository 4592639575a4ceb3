"""Options of the Go program that have nothing to say here; unit files that give them go on working."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import click

IGNORED: Final = (
    "enable-http2", "metrics-secure", "gomplate-path", "configset.file-bucket.enabled",
    "locker.backoff-min-period", "locker.backoff-max-period", "locker.backoff-max-retries",
    "locker.lease-duration", "freebsd.allow-in-jail", "jail.data-path", "jail.zfs-dataset", "jail.mirror",
    "notification.enabled", "notification.socket-path",
)  # fmt: skip
_SWITCHED_OFF: Final = ("0", "f", "false")

LAYOUT: Final = {
    "loglevel": "log-level",
    "controllerconfig.metricsaddr": "metrics-bind-address",
    "controllerconfig.probeaddr": "health-probe-bind-address",
    "controllerconfig.namespace": "namespace",
    "controllerconfig.managednode.forgivenessperiod": "managednode.forgiveness-period",
    "controllerconfig.managednode.draintimeout": "managednode.drain-timeout",
    "controllerconfig.configset.reconcileperiod": "configset.reconcile-period",
    "controllerconfig.configset.filebucket.path": "configset.file-bucket.path",
    "controllerconfig.configset.filebucket.maxage": "configset.file-bucket.max-age",
    "controllerconfig.configset.filebucket.maxfilesizebytes": "configset.file-bucket.max-file-size-bytes",
    "controllerconfig.enableleaderelection": "leader-elect",
    "controllerconfig.securemetrics": "metrics-secure",
    "controllerconfig.enablehttp2": "enable-http2",
    "controllerconfig.gomplatepath": "gomplate-path",
    "controllerconfig.configset.filebucket.enabled": "configset.file-bucket.enabled",
    "controllerconfig.locker.backoff.minbackoff": "locker.backoff-min-period",
    "controllerconfig.locker.backoff.maxbackoff": "locker.backoff-max-period",
    "controllerconfig.locker.backoff.maxretries": "locker.backoff-max-retries",
    "controllerconfig.locker.leaseduration": "locker.lease-duration",
    "controllerconfig.freebsd.allowinjail": "freebsd.allow-in-jail",
    "controllerconfig.freebsd.jail.jaildatapath": "jail.data-path",
    "controllerconfig.freebsd.jail.zfsdataset": "jail.zfs-dataset",
    "controllerconfig.freebsd.jail.mirror": "jail.mirror",
    "controllerconfig.notification.enabled": "notification.enabled",
    "controllerconfig.notification.socketpath": "notification.socket-path",
}
"""Keys of the Go program's file, in lower case as it did not mind the case, and the flags that they set."""


def ignored(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take what it has no use for, and say so."""
    for name in IGNORED:
        command = click.option(
            f"--{name}", re.sub("[-.]", "_", name), hidden=True, expose_value=False, is_flag=False,
            flag_value="true", default=None, callback=_ignore,
        )(command)  # fmt: skip
    return command


def _ignore(_ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        tell(f"option {param.opts[0]}", value)


def tell(what: str, value: str) -> None:
    """Say that something is ignored, unless it is switched off and will not be missed."""
    if value.lower() not in _SWITCHED_OFF:
        click.echo(f"{what} has no meaning here and is ignored", err=True)
