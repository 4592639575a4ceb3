"""Has a program look at the new content of a file before it is put in place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from nodemanager.api.common.declarations import Validation
from nodemanager.host.base import HostError, Runner
from nodemanager.host.files import private
from nodemanager.host.files.tree import Tree
from nodemanager.host.process import runner
from nodemanager.host.state import state_files
from nodemanager.plan.steps import WriteFile


class ValidationFailed(HostError):
    """A program refused the new content of a file; the old one is in place."""


async def validate(run: Runner, step: WriteFile, check: Validation, staged: str) -> None:
    """Run the program of a declaration on the new content, which is at `staged`."""
    values = {"${STAGED}": staged, "${TARGET}": step.path}
    argv = [check.command]
    for argument in check.args:
        for name, value in values.items():
            argument = argument.replace(name, value)  # noqa: PLW2901
        argv.append(argument)
    try:
        _as_declared(await run(argv, timeout=check.timeout_seconds), staged, step.path).check()
    except runner.RunError as error:
        said = _without_output(error) if step.content.secret else str(error).replace(staged, step.path)
        raise ValidationFailed(f"cannot put {step.path} in place: its validation failed: {said}") from None


@contextmanager
def copied(tree: Tree, folder: str, step: WriteFile) -> Iterator[str]:
    """Put the new content into a folder below our own, and return the path of it.

    Its name ends like that of the file: some programs judge by that.
    """
    state_files.prepare_folder(tree, folder)
    own = private.PrivateFolder(tree.folder(folder))
    name = private.PREFIX + step.path.rpartition("/")[2]
    try:
        descriptor = os.open(name, state_files.NEW, 0o600, dir_fd=own.descriptor)
        try:
            state_files.write_all(descriptor, step.content.data)
        finally:
            os.close(descriptor)
        yield f"{folder}/{own.name}/{name}"
    finally:
        own.close()


def _as_declared(completed: runner.Completed, staged: str, path: str) -> runner.Completed:
    """Return how a program ended as if it had looked at the file itself.

    The name of what it looked at is another one each time; with it, no two messages would be the same.
    """
    names = {os.fsencode(staged): os.fsencode(path)}
    names[os.fsencode(staged.rpartition("/")[2])] = os.fsencode(path.rpartition("/")[2])

    def named(data: bytes) -> bytes:
        for temporary, own in names.items():
            data = data.replace(temporary, own)
        return data

    argv = tuple(word.replace(staged, path) for word in completed.argv)
    return replace(completed, argv=argv, stdout=named(completed.stdout), stderr=named(completed.stderr))


def _without_output(error: runner.RunError) -> str:
    """Return why a program failed, without its words: they may quote the secret it looked at."""
    if not isinstance(error, runner.CommandFailed):
        return str(error)
    return f"exit status {error.returncode}, output not shown: the content is made of Secrets"
