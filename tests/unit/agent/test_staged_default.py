"""Sets that do not say how they are rolled out: hosts ask for the default of their namespace before."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodemanager.agent.declared.staged_sets import RIGHTS
from nodemanager.api.common import configsetrevision, node_conditions
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.configsetrevision import ConfigSetRevision
from nodemanager.api.common.rollout import ALL_AT_ONCE, SCALE, STAGED, Rollout
from nodemanager.kube import errors
from support.staged import HOST, StagedHost, all_at_once, config_set, following, revision, undecided

ONE, TWO = revision(1, "one"), revision(2, "two")
NEVER_TOLD = errors.InternalError("the server is out of order")


def saying(content: str, generation: int = 1, **rollout: Any) -> ConfigSet:
    """A set without a word of how it is rolled out, as the API has it before any operator looks."""
    given = config_set(None, generation=generation)
    files = [msgspec.structs.replace(given.spec.files[0], content=content)]
    own = Rollout(**rollout) if rollout else None
    spec = msgspec.structs.replace(given.spec, files=files, rollout=own)
    return ConfigSet(given.metadata, spec)


async def test_without_a_default_a_change_is_asked_about_once_and_taken() -> None:
    host = StagedHost()
    for generation, content in enumerate(("one", "two"), 1):
        for _ in range(3):
            assert await host.has(saying(content, generation)) == [(content, 0, generation)]
        assert host.asked == generation
    host.restart()
    assert await host.has(saying("two", 3)) == [("two", 0, 3)]  # another generation of the same
    same = saying("two", 3)
    await host.has(ConfigSet(msgspec.structs.replace(same.metadata, labels={}), same.spec))
    assert (host.asked, host.again, host.staged.waits) == (3, [], {})


@pytest.mark.parametrize("policy", [True, NEVER_TOLD])
async def test_a_new_set_is_not_taken_before_an_operator_has_said_whose_turn_it_is(
    policy: bool | errors.KubeError,
) -> None:
    host = StagedHost(ONE)
    host.policy = policy
    assert await host.has(saying("one")) == []
    wait = host.staged.waits["web"]
    assert (wait.code, wait.bare) == (node_conditions.REVISION_UNDECIDED, True)
    assert host.staged.has_default == (policy is True)
    assert ("out of order" in wait.message) == (policy is not True)
    assert len(host.again) == 1  # it asks again: the default may go before any operator looks
    assert await host.has(following(config_set(None, next=_ref(ONE)))) == []  # not its turn
    assert host.staged.waits == {}
    mine = following(config_set(None, next=_ref(ONE), threshold=SCALE, current="web-1"))
    assert await host.has(mine) == [("one", 1, 1)]
    assert (host.asked, host.staged.has_default) == (1, True)


@pytest.mark.parametrize("policy", [True, NEVER_TOLD])
async def test_a_host_keeps_what_it_has_of_a_set_that_an_operator_called_all_at_once(
    policy: bool | errors.KubeError,
) -> None:
    """The operator may be an old one, or not have seen the default yet."""
    host = StagedHost(ONE, TWO)
    await host.has(saying("one"))
    host.policy = policy
    for changed in (saying("newest", 2), all_at_once(config_set(TWO, generation=2))):
        assert await host.has(changed) == [("one", 0, 1)]
        assert not host.staged.waits["web"].bare
    host.policy = False
    assert await host.has(saying("newest", 2)) == [("newest", 0, 2)]


async def test_who_cannot_ask_does_as_an_operator_says() -> None:
    """That has asked itself: so hosts with the rights of an older version get changes a moment later."""
    host = StagedHost(ONE, TWO)
    await host.has(saying("one"))
    host.policy = errors.Forbidden("cannot get it: no right")
    told = all_at_once(config_set(TWO, generation=2, current="web-2"))
    older = all_at_once(config_set(TWO, generation=2, current="web-3"))
    assert await host.has(older) == [("one", 0, 1)]
    assert host.staged.waits["web"].message.endswith(f"no right{RIGHTS}")
    assert await host.has(older) == await host.has(undecided(told)) == [("one", 0, 1)]
    assert await host.has(told) == [("newest", 0, 2)]


async def test_who_never_could_ask_and_has_heard_of_no_operator_takes_changes_as_ever() -> None:
    host = StagedHost()
    host.policy = errors.Forbidden("cannot get it: no right")
    assert await host.has(saying("one")) == [("one", 0, 1)]
    assert await host.has(saying("two", 2)) == [("two", 0, 2)]
    assert host.staged.waits == {}


async def test_a_set_that_follows_is_asked_about_no_more() -> None:
    host = StagedHost(ONE, TWO)
    host.policy = NEVER_TOLD
    known = following(config_set(ONE, current="web-1"))
    assert await host.has(known) == [("one", 1, 1)]
    assert await host.has(undecided(known)) == [("one", 1, 1)]
    assert await host.has(following(config_set(ONE, generation=2, next=_ref(TWO)))) == [("one", 1, 1)]
    # The default goes, and the set says what the host has.
    assert await host.has(saying("one", 2)) == [("one", 0, 2)]
    for own, content in ((ALL_AT_ONCE, "three"), (STAGED, "four")):
        assert await host.has(saying(content, 3, strategy=own)) == [("three", 0, 3)]
    assert host.asked == 0


async def test_a_host_without_the_api_takes_nothing_new() -> None:
    host = StagedHost()
    await host.has(saying("one"))
    host.offline = True
    assert await host.has(saying("two", 2)) == [("one", 0, 1)]
    assert str(host.staged.waits["web"]) == "RevisionUndecided: the API is away"
    assert await host.has(saying("one", 3)) == [("one", 0, 3)]
    assert (host.asked, host.again) == (1, [])  # its return is heard of


async def test_what_is_not_for_the_host_is_not_asked_about() -> None:
    host = StagedHost()
    host.policy = True
    other = msgspec.structs.replace(HOST, labels={"role": "db"})
    await host.has(saying("one"), other)
    assert (host.asked, host.staged.waits) == (0, {})


def _ref(one: ConfigSetRevision) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(configsetrevision.reference(one))
    return found
