"""A subcommand that fails as it is told to."""

from __future__ import annotations

import errno

import click

from nodemanager.kube import errors, manifests
from nodemanager.native import ed25519

FAILURES: dict[str, BaseException] = {
    "kube": errors.Conflict("cannot patch x: somebody\nelse \x1b[31mwas faster"),
    "config": errors.ConfigError("cannot read the kubeconfig: it is a poem"),
    "manifest": manifests.ManifestError("cannot read a.yaml: line 3: no"),
    "signature": ed25519.Unavailable("cannot check a signature: install python3-cryptography"),
    "os": OSError(errno.ENOSPC, "No space left on device"),
    "permission": PermissionError(errno.EACCES, "Permission denied", "/etc/x"),
    "rename": OSError(errno.EXDEV, "Invalid cross-device link", "a", None, "b"),
    "click": click.ClickException("the agent does not run"),
    "bug": KeyError("spec"),
    "usage": click.UsageError("not like this"),
    "interrupt": KeyboardInterrupt(),
    "abort": click.Abort(),
    "exit": click.exceptions.Exit(3),
}


@click.command()
@click.argument("how")
def command(how: str) -> None:
    """Fail."""
    raise FAILURES[how]
