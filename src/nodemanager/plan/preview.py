"""A plan before anything is done counts with what the steps above will bring: a package, its services.

In a pass every stage looks again after the one before. A preview looks once, so what is only not there yet
would read as if it could never be.
"""

from __future__ import annotations

from collections.abc import Sequence

from nodemanager.plan.steps import Blocked, Expected, InstallPackage, MakeLink, Step, WriteFile


def expect(steps: Sequence[Step], above: Sequence[Step]) -> list[Step]:
    """Return the steps of a stage; those that lack only what steps `above` may bring are expected."""
    return [_expected(step, above) for step in steps]


def _expected(step: Step, above: Sequence[Step]) -> Step:
    if not isinstance(step, Blocked) or step.lack is None:
        return step
    files = [one.path for one in above if isinstance(one, WriteFile | MakeLink)]
    source = next((path for path in files if path.endswith(step.lack.files)), "") if step.lack.files else ""
    source = source or _packages(step, [one for one in above if isinstance(one, InstallPackage)])
    if not source:
        return step
    reason = f"{step.lack.what} is not there yet; {source}, above, is expected to bring it"
    return Expected(id=step.id, sources=step.sources, reason=reason, verb=step.lack.then)


def _packages(step: Blocked, coming: Sequence[InstallPackage]) -> str:
    """Return which new packages may bring it: the one of its name, those of its ConfigSets, or any."""
    new = [one for one in coming if not one.newer]
    near = [one for one in new if set(one.sources) & set(step.sources)] or new
    names = [one.name for one in near if one.name == step.id.name] or [one.name for one in near]
    if len(names) > 1:
        return f"one of the packages {', '.join(names[:5])}{' and more' if len(names) > 5 else ''}"
    return f"package {names[0]}" if names else ""
