"""A host whose clock is wrong by a year reaches nobody, and says why in its log and on its console."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from support import cli, server_process
from support.agent_process import Agent
from support.fleet import until
from support.liveness_chaos import faked_clock
from support.server_process import NAMESPACE


@pytest.mark.parametrize("days", [365, -365])
def test_a_clock_that_is_wrong_by_a_year_is_named_where_people_look(tmp_path: Path, days: int) -> None:
    (tmp_path / "server").mkdir()
    root = tmp_path / "host"
    for name in ("etc", "run"):
        (root / name).mkdir(parents=True)
    with server_process.running(tmp_path / "server", first=True) as server:
        assert server.cli("crds", "--install").returncode == 0
        environ = faked_clock(tmp_path / "clock", days * 86400)
        agent = Agent(root, NAMESPACE, server.kubeconfig, environ=environ)
        agent.start()
        try:
            until(lambda: "alone: " in agent.log.read_text(), "the agent is alone")
            until((root / "run/nodemanager/agent.sock").exists, "the agent answers")
            shown = cli.run("status", "--root", str(root)).stdout
        finally:
            agent.end()
    year, other = time.gmtime().tm_year, time.gmtime(time.time() + days * 86400).tm_year
    said = "certificate has expired" if days > 0 else "certificate is not yet valid"
    for text in (agent.log.read_text(), shown.replace("\n", " ")):
        assert f"{said}; the clock of this machine says {other}-" in text, text
        assert f"that of the server {year}-" in text
        assert "timedatectl set-ntp true" in text
