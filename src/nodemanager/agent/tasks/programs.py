"""Steps that run a program: it goes on when we are stopped or killed, and is never run a second time by itself."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from nodemanager.agent.tasks.attempts import INTERRUPTED, Attempt, AttemptResult
from nodemanager.api.maintenance.task_steps import ExecutionAction
from nodemanager.host.process.runner import Completed, RunError
from nodemanager.host.process.runs import Program, Runs
from nodemanager.plan.resources import ResourceId

_BY_TEXT: Final = {
    **dict.fromkeys(("sh", "bash", "dash", "ash", "zsh", "ksh", "python", "python3"), "-c"),
    **dict.fromkeys(("perl", "ruby"), "-e"),
}
"""Interpreters that take a program as an argument: no file has to be made that others could see or change."""
MASK: Final = "********"


class Programs:
    """Runs the programs of tasks."""

    def __init__(self, runs: Runs, boot_id: str) -> None:
        self._runs = runs
        self._boot_id = boot_id

    async def perform(self, action: ExecutionAction, attempt: Attempt) -> AttemptResult:
        """Run it to its end."""
        try:
            program = Program(
                argv=(*as_user(action.user), *argv_of(action)),
                timeout=attempt.timeout,
                env={**action.env, **_variables(attempt)},
                cwd=action.working_directory or "/",
            )
            return judged(action, await self._runs.start(_id(attempt), program), attempt)
        except (RunError, ValueError) as error:
            return AttemptResult(succeeded=False, message=str(error))

    async def settle(self, action: ExecutionAction, attempt: Attempt) -> AttemptResult:
        """Wait for a program that goes on, or take what it noted.

        One that never began begins now. In another boot nobody can tell: the notes were on their way to the disk.
        """
        if attempt.known.boot_id == self._boot_id and self._runs.withdraw(_id(attempt)):
            return await self.perform(action, attempt)
        status = await self._runs.recover(_id(attempt), attempt.timeout)
        if status is None:
            return INTERRUPTED
        completed = Completed(tuple(argv_of(action)), status, self._runs.said(_id(attempt)), b"")
        return judged(action, completed, attempt)


def _variables(attempt: Attempt) -> dict[str, str]:
    return {name: value.decode("utf-8", "surrogateescape") for name, value in attempt.secrets.items()}


def _id(attempt: Attempt) -> ResourceId:
    return ResourceId("task", attempt.key)


def as_user(user: str) -> tuple[str, ...]:
    """Return what makes another user of the program."""
    return ("runuser", "-u", user, "--") if user and user != "root" else ()


def argv_of(action: ExecutionAction) -> list[str]:
    """Return the program and its arguments; pure. A script becomes an argument of who reads it."""
    if action.argv:
        return list(action.argv)
    first = action.script.partition("\n")[0]
    reader = first.removeprefix("#!").split() if first.startswith("#!") else ["/bin/sh"]
    if PurePosixPath(reader[0]).name == "env" and len(reader) > 1:
        reader = reader[1:]
    option = _BY_TEXT.get(PurePosixPath(reader[0]).name)
    if option is None:
        known = ", ".join(_BY_TEXT)
        raise ValueError(f"cannot run the script: {reader[0]} is none of {known}; write argv instead")
    return [*reader, option, action.script]


def judged(action: ExecutionAction, ended: Completed, attempt: Attempt) -> AttemptResult:
    """Return what the end of a program means; pure."""
    accepted = action.accepted_exit_codes or [0]
    output = (ended.stdout + ended.stderr).decode("utf-8", "replace")
    for value in attempt.secrets.values():
        if text := value.decode("utf-8", "replace").strip():
            output = output.replace(text, MASK)
    good = ended.returncode in accepted
    said = "" if good else f"exit code {ended.returncode}"
    return AttemptResult(good, said, ended.returncode, changed=True, output=output)
