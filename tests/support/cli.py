"""Run the `nodemanager` command: in this process for speed, or as a real one where that matters."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

from nodemanager.cli import main
from support import kubeconfigs
from support.scripted_server import ScriptedServer

_KEPT = ("PATH", "LANG", "PYTHONPATH", "TMPDIR")
ARGV = (sys.executable, "-m", "nodemanager")


class Ran(NamedTuple):
    """How a run of the command ended."""

    code: int
    stdout: str
    stderr: str


def run(*args: str) -> Ran:
    """Run the command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main.run(args)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return Ran(code, out.getvalue(), err.getvalue())


async def run_against(server: ScriptedServer, folder: Path, *args: str) -> Ran:
    """Run the command, in a thread with an event loop of its own, against a scripted server."""
    return await asyncio.to_thread(run, *args, "--kubeconfig", kubeconfig(server.url, folder))


def kubeconfig(url: str, folder: Path) -> str:
    """Write the kubeconfig of a server without credentials and return its path."""
    return kubeconfigs.write(folder / "kubeconfig", kubeconfigs.build(cluster={"server": url}))


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of a real process that knows no cluster of ours."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT}
    return {**kept, "HOME": "/nonexistent", **variables}


def table(*names: str, version: str = "1", columns: bool = True, next_page: str = "") -> dict[str, Any]:
    """Return a Table of hosts as a server sends it."""
    definitions = [
        {"name": "Name", "type": "string", "format": "name", "priority": 0},
        {"name": "Ready", "type": "string", "priority": 0},
        {"name": "Age", "type": "date", "priority": 0},
        {"name": "Reason", "type": "string", "priority": 1},
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": version, "continue": next_page},
        "columnDefinitions": definitions if columns else None,
        "rows": [row(name, version=version) for name in names],
    }


def row(name: str, *, version: str = "1", ready: str | None = "True") -> dict[str, Any]:
    """Return a row of such a table."""
    meta = {"name": name, "namespace": "nodemanager", "resourceVersion": version}
    return {"cells": [name, ready, "5m", "Applied"], "object": {"metadata": meta}}
