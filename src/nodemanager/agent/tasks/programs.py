"""Steps that run a program: it goes on when the agent stops or dies, and is never repeated by itself."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from nodemanager.agent.tasks.attempts import INTERRUPTED, Attempt, AttemptResult, Performer
from nodemanager.api.maintenance.task_steps import ExecutionAction, SecretVariable
from nodemanager.host.base import HostError
from nodemanager.host.process.runner import Completed, RunError
from nodemanager.host.process.runs import SHOWN, ProgramCall, Runs
from nodemanager.plan.resources import ResourceId

_BY_TEXT: Final = {
    **dict.fromkeys(("sh", "bash", "dash", "ash", "zsh", "ksh", "python", "python3"), "-c"),
    **dict.fromkeys(("perl", "ruby"), "-e"),
}
"""Interpreters that accept a program as an argument: no file is needed that others could see or change."""
MASK: Final = "********"
UNMASKED: Final = (
    "what it said is left out: the Secrets that it ran with are not known any more, and may show in it\n"
)
Values = Mapping[str, str]
ReadSecrets = Callable[[Sequence[SecretVariable], float], Awaitable[Values]]
"""Returns values by the name of their variable, within so many seconds; raises HostError if it cannot."""


async def no_secrets(wanted: Sequence[SecretVariable], _seconds: float) -> Values:
    """Refuse all of them: where there is nobody to ask."""
    if wanted:
        raise HostError(f"cannot read Secret {wanted[0].secret}: there is no API to ask")
    return {}


@dataclass(frozen=True, slots=True)
class Programs(Performer):
    """Runs the programs of tasks."""

    runs: Runs
    boot_id: str
    secrets: ReadSecrets = no_secrets

    def clean(self) -> None:
        """Remove the notes of all runs."""
        with contextlib.suppress(OSError):  # the end of the next task tries again
            self.runs.sweep(())

    async def perform(self, action: ExecutionAction, attempt: Attempt) -> AttemptResult:
        """Run it to its end."""
        try:
            values = await self.secrets(action.secret_env, attempt.timeout)
            argv = (*as_user(action.user), *inside(action.working_directory), *argv_of(action))
            program = ProgramCall(argv, attempt.timeout, {**action.env, **values})
            return judged(action, await self.runs.start(_id(attempt), program), values)
        except (HostError, RunError, ValueError) as error:
            return AttemptResult(succeeded=False, message=str(error))

    async def settle(self, action: ExecutionAction, attempt: Attempt) -> AttemptResult:
        """Wait for a program that still runs, or read how it ended.

        One that never started is started now. After a reboot it is unknown how it ended: its
        notes may not have reached the disk.
        """
        if attempt.known.boot_id == self.boot_id and self.runs.withdraw(_id(attempt)):
            return INTERRUPTED if attempt.barred else await self.perform(action, attempt)
        status = await self.runs.recover(_id(attempt), attempt.timeout)
        if status is None:
            return INTERRUPTED
        # Secrets may be others by now than those it ran with, which nothing here remembers.
        said = UNMASKED.encode() if action.secret_env else self.runs.said(_id(attempt))
        return judged(action, Completed(tuple(argv_of(action)), status, said, b""), {})


def _id(attempt: Attempt) -> ResourceId:
    return ResourceId("task", attempt.key)


def as_user(user: str) -> tuple[str, ...]:
    """Return what makes another user of the program."""
    return ("runuser", "-u", user, "--") if user and user != "root" else ()


def inside(folder: str) -> tuple[str, ...]:
    """Return what comes before a program so that it runs in a folder, as seen below its own root."""
    return ("/bin/sh", "-c", 'cd -- "$0" && exec "$@"', folder) if folder else ()


def argv_of(action: ExecutionAction) -> list[str]:
    """Return the program and its arguments; pure. A script becomes an argument of who reads it."""
    if action.argv:
        return list(action.argv)
    first = action.script.partition("\n")[0]
    reader = first.removeprefix("#!").split() if first.startswith("#!") else []
    reader = reader or ["/bin/sh"]
    if PurePosixPath(reader[0]).name == "env" and len(reader) > 1:
        reader = reader[1:]
    option = _BY_TEXT.get(PurePosixPath(reader[0]).name)
    if option is None:
        known = ", ".join(_BY_TEXT)
        raise ValueError(f"cannot run the script: {reader[0]} is none of {known}; write argv instead")
    return [*reader, option, action.script]


def judged(action: ExecutionAction, ended: Completed, values: Values) -> AttemptResult:
    """Return what the end of a program means; pure."""
    accepted = action.accepted_exit_codes or [0]
    output = (ended.stdout + ended.stderr).decode("utf-8", "replace")
    if len(ended.stdout) >= SHOWN and values:  # it may begin in the middle of one
        output = output[max(map(len, values.values())) :]
    output = masked(output, values)
    good = ended.returncode in accepted
    said = "" if good else f"exit code {ended.returncode}"
    return AttemptResult(good, said, ended.returncode, changed=True, output=output)


def masked(output: str, values: Values) -> str:
    """Return what a program said with values of Secrets masked, also single lines of such a value; pure."""
    lines = {part.strip() for value in values.values() for part in (value, *value.splitlines())}
    for text in sorted(lines, key=len, reverse=True):
        if text:
            output = output.replace(text, MASK)
    return output
