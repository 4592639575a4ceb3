"""Whether the API records who makes requests: a condition beside those of the log."""

from __future__ import annotations

from typing import Final

from nodemanager.api.rights import stamp_policy, stamping_state
from nodemanager.api.rights.operator_rights import Right
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.conditions import FALSE, TRUE, UNKNOWN, Condition
from nodemanager.kube.core import MUTATING_BINDINGS, MUTATING_POLICIES
from nodemanager.kube.objects import Resource, Untyped

RIGHTS: Final = tuple(
    Right(one, ("get",), names=(stamp_policy.STAMPING,)) for one in (MUTATING_POLICIES, MUTATING_BINDINGS)
)
"""To read the two policy objects that are ours, and no others."""
NOT_ALLOWED: Final = "CannotTell"
MAX_MESSAGE: Final = 1000


class _NotServed(Exception):
    """The API has no such kind."""


async def condition(client: Client) -> Condition:
    """Ask the API whether it stamps users, and return the condition."""
    policy = binding = None
    served = True
    try:
        policy = await _read(client, MUTATING_POLICIES)
        binding = await _read(client, MUTATING_BINDINGS)
    except _NotServed:
        served = False
    except errors.Forbidden as error:
        said = f"{error}; give the operator its rights: config/rbac or the chart"
        return _condition(UNKNOWN, NOT_ALLOWED, said)
    state = stamping_state.judge(policy, binding, served=served)
    return _condition(TRUE if state.in_force else FALSE, state.reason, state.message)


async def _read(client: Client, resource: Resource[Untyped]) -> Untyped | None:
    try:
        return await client.get(resource, stamp_policy.STAMPING)
    except errors.NotFound as error:
        if error.details.name == stamp_policy.STAMPING:
            return None
        raise _NotServed from error  # if the kind exists, the message names the missing object


def _condition(status: str, reason: str, message: str) -> Condition:
    return Condition(
        type=stamping_state.CONDITION, status=status, reason=reason, message=message[:MAX_MESSAGE]
    )
