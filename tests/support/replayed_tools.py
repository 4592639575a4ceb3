"""Programs that are not to be had here: scripts on PATH that say what the real ones say."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from nodemanager.host.files.file_facts import is_fresh
from nodemanager.host.process import runner
from nodemanager.host.process.environment import ENVIRONMENT
from support import scripts

SCRIPT = """\
log='{log}' answers='{answers}'
printf '%s\\n' "${{0##*/}} $*" >> "$log"
for known in "$answers"/*.args; do
    if [ "$(cat "$known")" = "${{0##*/}} $*" ]; then
        cat "${{known%.args}}.out"
        cat "${{known%.args}}.err" >&2
        exit "$(cat "${{known%.args}}.status")"
    fi
done
echo "this is not replayed: $*" >&2
exit 99
"""


class ReplayedTools:
    """A folder of such programs, and a `Runner` that finds them first."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.folder = folder / "bin"
        self.answers = folder / "answers"
        self.log = folder / "log"
        self.folder.mkdir()
        self.answers.mkdir()
        self._count = 0
        for name in names:
            scripts.write(self.folder / name, SCRIPT.format(log=self.log, answers=self.answers))

    def answer(self, command: str, out: str = "", *, err: str = "", status: int = 0) -> None:
        """Say how a command is answered; the last word counts."""
        self._count += 1
        stem = self.answers / f"{9999 - self._count:04}"
        for suffix, text in ((".args", command), (".out", out), (".err", err), (".status", str(status))):
            stem.with_suffix(suffix).write_text(text)

    def calls(self) -> list[str]:
        """Return the commands that were run since the last time they were asked for."""
        if not self.log.exists():
            return []
        lines = self.log.read_text().splitlines()
        self.log.unlink()
        return lines

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout: float,
        max_output: int = runner.MAX_OUTPUT,
        cwd: str | None = None,
        finish: bool = False,
        bounded: bool = False,
    ) -> runner.Completed:
        path = {"PATH": f"{self.folder}:{ENVIRONMENT['PATH']}"}
        return await runner.run(
            argv,
            env={**ENVIRONMENT, **(env or {}), **path},
            stdin=stdin,
            timeout=timeout,
            max_output=max_output,
            cwd=cwd,
            finish=finish,
        )


async def no_longer_fresh(path: Path) -> None:
    """Wait until a database that was just written may be remembered."""
    while is_fresh(await asyncio.to_thread(path.stat)):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
