"""The plan of a preview assumes the results of its earlier steps: a package brings its services.

In a pass every stage looks again after the one before. A preview looks only once, so a service that a package
is yet to bring would look as if it could never exist.
"""

from __future__ import annotations

from collections.abc import Sequence

from nodemanager.plan.host_kinds import Brought
from nodemanager.plan.stages import KINDS, HostKinds
from nodemanager.plan.steps import Blocked, Expected, Step


def expect(steps: Sequence[Step], above: Sequence[Step], kinds: HostKinds = KINDS) -> list[Step]:
    """Return the steps of a stage; those that lack only what steps `above` may bring are expected."""
    return [_expected(step, above, kinds) for step in steps]


def _expected(step: Step, above: Sequence[Step], kinds: HostKinds) -> Step:
    if not isinstance(step, Blocked) or step.lack is None:
        return step
    brought = [(one, kinds[one.id.kind].brings(one)) for one in above]
    files = [one.id.name for one, what in brought if what is Brought.ITSELF]
    source = next((path for path in files if path.endswith(step.lack.files)), "") if step.lack.files else ""
    source = source or _whole(step, [one for one, what in brought if what is Brought.MORE], kinds)
    if not source:
        return step
    reason = f"{step.lack.what} is not there yet; {source}, above, is expected to bring it"
    return Expected(id=step.id, sources=step.sources, reason=reason, verb=step.lack.then)


def _whole(step: Blocked, coming: Sequence[Step], kinds: HostKinds) -> str:
    """Return which new packages may bring it: the one of its name, those of its ConfigSets, or any."""
    near = [one.id for one in coming if set(one.sources) & set(step.sources)] or [one.id for one in coming]
    near = [one for one in near if one.name == step.id.name] or near
    if not near:
        return ""
    one, many = kinds[near[0].kind].words
    names = [each.name for each in near if each.kind == near[0].kind]
    if len(names) > 1:
        return f"one of the {many} {', '.join(names[:5])}{' and more' if len(names) > 5 else ''}"
    return f"{one} {names[0]}"
