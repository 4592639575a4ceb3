"""Every shell block of README and docs runs as it is printed, or says above it why it is an illustration."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import either
from support.doc_blocks import PAGES, ROOT, known, shell_blocks
from support.server_process import Server

pytestmark = pytest.mark.timeout(300)
PLAN = re.compile(r"^(nodemanager plan)\b.*$", re.MULTILINE)
"""Exits with 2 where something would change, as on a machine that an example is meant for."""
HINT = "mend it, or write <!-- illustration: why --> on the line above the block, if no test can run it"
FROM_NOTHING = {"README.md", "docs/getting-started.md"}
"""Begin with a cluster that does not know our kinds; the others come after these."""


class Reader:
    """Somebody with a checkout and an API, who types what is printed."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        self.folder = folder
        path = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self.environ = {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": path, "HOME": str(folder)}
        self.started: list[subprocess.Popen[bytes]] = []

    def types(self, script: str) -> str:
        done = subprocess.run(
            ["bash", "-euxo", "pipefail", "-c", PLAN.sub(r"\1 || [ $? = 2 ]", script)],
            cwd=self.folder, env=self.environ, text=True, timeout=120, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout}\n{HINT}"
        return done.stdout

    def leaves_running(self, script: str) -> None:
        log = (self.folder / "background.log").open("ab")
        argv = ["bash", "-euo", "pipefail", "-c", script]
        with log:
            self.started.append(
                subprocess.Popen(
                    argv, cwd=self.folder, env=self.environ, stdout=log, stderr=log, start_new_session=True
                )
            )

    def goes(self) -> None:
        for process in self.started:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    either.need_kubectl()
    server = Server(tmp_path / "data")
    server.start()
    folder = tmp_path / "checkout"
    folder.mkdir()
    for entry in ROOT.iterdir():
        (folder / entry.name).symlink_to(entry)
    one = Reader(folder, server.kubeconfig)
    try:
        yield one
    finally:
        one.goes()
        server.stop()


@pytest.mark.parametrize("page", [page for page in PAGES if any(each.runs for each in shell_blocks(page))])
def test_the_commands_of_a_page_work_as_printed(page: str, reader: Reader) -> None:
    if page in FROM_NOTHING:
        reader.types("nodemanager crds --uninstall --yes; kubectl delete namespace nodemanager")
    for block in shell_blocks(page):
        if block.in_background:
            reader.leaves_running(block.script)
        elif block.runs:
            reader.types(block.script)
    if page == "docs/getting-started.md":
        reader.types("until grep -qx hello sandbox/etc/motd; do sleep 0.1; done")


@pytest.mark.parametrize("page", PAGES)
def test_what_is_said_above_a_block_is_known(page: str) -> None:
    assert [block.mark for block in shell_blocks(page) if not known(block.mark)] == [], HINT
