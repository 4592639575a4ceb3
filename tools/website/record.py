"""Record the terminal of the home page: `python -m tools.website.record`, or `make docs-record`.

It is a real session: an API, operator and agent whose host is a folder, a declaration, a change behind the
agent's back. Only the name of the temporary folder is replaced.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time
import tty
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.website.cast import Cast

ROOT: Final = Path(__file__).resolve().parents[2]
CAST: Final = "docs/pictures/demo.cast"
TITLE: Final = "a folder stands for the host web1"
COLUMNS: Final = 76
PATIENCE: Final = 60.0
_DONE: Final = "\x1e"
_FOLDER: Final = "/tmp/demo"  # noqa: S108 - only shown

_MANIFEST: Final = """\
apiVersion: common.nodemanager/v1
kind: ConfigSet
metadata: {name: hello, namespace: nodemanager}
spec:
  nodeSelector: {matchLabels: {kubernetes.io/hostname: web1}}
  files:
  - {path: /etc/motd, content: "declared, not edited\\n"}
"""


@dataclass(frozen=True, slots=True)
class Step:
    """A line that is typed, after a condition of the shell holds."""

    typed: str
    after: str = "true"


def steps(address: str = "") -> tuple[Step, ...]:
    """Return the session; `address` is where the API listens, if not where it does by default."""
    bind = f" --bind-address {address}" if address else ""
    return (
        Step("cat hello.yaml"),
        Step(f"nodemanager up --root web1 --hostname web1 --data-dir data{bind} >log &"),
        Step("export KUBECONFIG=data/admin.kubeconfig", 'grep -q "leading" log'),
        Step("kubectl apply -f hello.yaml"),
        Step("cat web1/etc/motd", "[ -s web1/etc/motd ]"),
        Step("echo 'quick fix, 2 a.m.' >web1/etc/motd", "nodemanager get cs hello | grep -q ' 1 .* 1 '"),
        Step("cat web1/etc/motd", "grep -q declared web1/etc/motd"),
        Step("nodemanager status --root web1", "nodemanager status --root web1 | grep -q repaired"),
    )


@dataclass(slots=True)
class _Shell:
    """A shell whose output is a terminal."""

    folder: Path
    terminal: int
    process: subprocess.Popen[str]
    began: float = field(default_factory=time.monotonic)
    pieces: list[tuple[float, str]] = field(default_factory=list)

    def show(self, text: str) -> None:
        """Keep what is seen now."""
        shown = text.replace(str(self.folder), _FOLDER).replace("\r\n", "\n")
        self.pieces.append((time.monotonic() - self.began, shown))

    def run(self, line: str) -> str:
        """Run a line to its end; return what it printed."""
        assert self.process.stdin is not None  # noqa: S101 - it was made with one
        self.process.stdin.write(f"{line}\nprintf '\\x1e'\n")
        self.process.stdin.flush()
        printed = ""
        until = time.monotonic() + PATIENCE
        while not printed.endswith(_DONE):
            if not select.select([self.terminal], [], [], max(until - time.monotonic(), 0))[0]:
                raise TimeoutError(f"cannot record {line!r}: no end within {PATIENCE:g} s, only {printed!r}")
            printed += os.read(self.terminal, 65536).decode()
        return printed.removesuffix(_DONE)


def record(folder: Path, session: Sequence[Step]) -> Cast:
    """Play a session in an empty folder."""
    (folder / "web1/run").mkdir(parents=True)
    (folder / "hello.yaml").write_text(_MANIFEST, encoding="utf-8")
    with _shell(folder) as shell:
        for step in session:
            shell.run(f"until {step.after}; do sleep 0.02; done >/dev/null 2>&1")
            shell.show(f"$ {step.typed}\n")
            printed = shell.run(step.typed)
            if printed:
                shell.show(printed)
    return Cast(TITLE, COLUMNS, tuple(shell.pieces))


@contextlib.contextmanager
def _shell(folder: Path) -> Iterator[_Shell]:
    terminal, theirs = pty.openpty()
    tty.setraw(theirs)
    process = subprocess.Popen(
        ["/bin/bash"], cwd=folder, env=_environment(folder), text=True,
        stdin=subprocess.PIPE, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    shell = _Shell(folder, terminal, process)
    try:
        yield shell
    finally:
        with contextlib.suppress(OSError, TimeoutError):
            shell.run("kill -TERM $! && wait $!")
        process.kill()
        process.communicate()
        os.close(terminal)


def _environment(folder: Path) -> Mapping[str, str]:
    """Return what a newcomer has: no kubeconfig, an empty home, and the program on the PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    terminal = {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LANG": "C.UTF-8"}
    return {"PATH": path, "HOME": str(folder), **terminal}


def main(argv: Sequence[str] | None = None) -> int:
    """Record anew, and write the file that `make generate` draws from."""
    parser = argparse.ArgumentParser(prog="python -m tools.website.record", description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / CAST)
    options = parser.parse_args(argv)
    if os.geteuid() != 0 or not shutil.which("kubectl"):
        sys.stderr.write("cannot record: nodemanager status answers only root, and kubectl has to be there\n")
        return 1
    with tempfile.TemporaryDirectory(prefix="nodemanager-record-") as folder:
        cast = record(Path(folder).resolve(), steps())
    options.output.write_text(cast.dump(), encoding="utf-8")
    sys.stdout.write(f"{cast.text()}\nwrote {options.output}; make generate draws it\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
