"""Kubeconfig files for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nodemanager.client.auth.commands import CommandResult


def build(
    name: str = "main",
    *,
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    **context: Any,
) -> dict[str, Any]:
    """Return a kubeconfig with one context, cluster and user, all called `name`."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **context}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443", **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
    }


def write(path: Path, config: object) -> str:
    """Write a kubeconfig (JSON is YAML) and return its path as a string."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    path.chmod(0o600)
    return str(path)


async def no_commands(*_: Any, **__: Any) -> CommandResult:
    """Be the runner where no command may run."""
    raise AssertionError("no command was expected to run")
