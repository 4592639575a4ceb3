"""Which rollout is in force for a set: its own, the default of its namespace, or what is left of one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet, ConfigSetSpec, ConfigSetStatus
from nodemanager.api.common.rollout import (
    ALL_AT_ONCE,
    STAGED,
    PolicyRef,
    RevisionRef,
    Rollout,
    RolloutStatus,
)
from nodemanager.api.common.rolloutpolicy import DEFAULT, ROLLOUT_POLICIES, RolloutPolicy, reference
from nodemanager.api.maintenance.operations import LocalReference
from nodemanager.controllers.registration import Caches, Wake
from nodemanager.controllers.rollouts import revisions, waking
from nodemanager.controllers.rollouts.following import Defaults, FollowedSet, followed
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.runtime.cache import Change

OLD, NEW, OTHER = (RevisionRef(name=one, digest=one * 64) for one in "abc")
POLICY = RolloutPolicy(
    ObjectMeta(name=DEFAULT, namespace="x", uid="p", generation=3), Rollout(strategy=STAGED, soak="7m")
)
LAX = RolloutPolicy(POLICY.metadata, Rollout(strategy=ALL_AT_ONCE))


def config_set(rollout: Rollout | None = None, **status: Any) -> ConfigSet:
    published = RolloutStatus(observed_generation=1, **status) if status else None
    meta = ObjectMeta(name="web", namespace="x", generation=1)
    return ConfigSet(meta, ConfigSetSpec(rollout=rollout), ConfigSetStatus(rollout=published))


def in_force(found: FollowedSet) -> tuple[object, ...]:
    rollout = found.config_set.spec.rollout
    return rollout and (rollout.strategy, rollout.soak), found.policy, found.gone


def test_a_set_that_says_something_follows_nothing() -> None:
    for own in (Rollout(strategy=ALL_AT_ONCE), Rollout(strategy=STAGED)):
        found = followed(config_set(own, next=NEW, policy=PolicyRef(name=DEFAULT)), POLICY, NEW.digest)
        assert in_force(found) == ((own.strategy, "5m"), None, False)


@pytest.mark.parametrize("policy", [None, LAX])
def test_who_takes_the_default_away_decides_about_later_changes_only(policy: RolloutPolicy | None) -> None:
    ref = reference(POLICY)
    assert in_force(followed(config_set(stable=OLD), POLICY, OLD.digest)) == ((STAGED, "7m"), ref, False)
    ways: list[dict[str, Any]] = [{"next": NEW}, {"refused": NEW}]
    for half_way in ways:
        given = config_set(stable=OLD, policy=ref, **half_way)
        assert in_force(followed(given, policy, NEW.digest)) == ((STAGED, "5m"), ref, True)
        for digest in (OLD.digest, OTHER.digest):  # it says again what all have, or something new
            assert in_force(followed(given, policy, digest)) == (None, None, False)
        own = config_set(stable=OLD, **half_way)  # it went by a rollout of its own, which somebody took away
        assert in_force(followed(own, policy, NEW.digest)) == (None, None, False)


def test_another_default_is_an_edit() -> None:
    ref = reference(POLICY)
    known = config_set(stable=OLD, next=NEW, policy=ref)
    assert not followed(known, POLICY, NEW.digest).is_edited
    assert not followed(config_set(), POLICY, NEW.digest).is_edited
    for meta in (ObjectMeta(name=DEFAULT, uid="p", generation=4), ObjectMeta(name=DEFAULT, uid="q")):
        assert followed(known, RolloutPolicy(meta, POLICY.spec), NEW.digest).is_edited


async def test_the_api_is_asked_about_a_change_whatever_the_cache_has() -> None:
    """The cache may have the change, and not yet the default that was made before it, or that it is gone."""
    asked: list[str] = []
    there: list[RolloutPolicy] = [POLICY]

    async def get(_kind: object, name: str, _namespace: str) -> RolloutPolicy:
        asked.append(name)
        if not there:
            raise errors.NotFound("there is none")
        return there[0]

    def defaults(*cached: RolloutPolicy) -> Defaults:
        known = {ObjectKey("x", DEFAULT): one for one in cached}
        return Defaults(*cast("Any", (SimpleNamespace(get=get), known)))

    changed = config_set(stable=OLD, next=OTHER)
    for given in (config_set(), changed, config_set(stable=OLD, next=NEW)):
        assert (await defaults().of(given, NEW.digest)).policy == reference(POLICY)
    assert len(asked) == 3
    there.clear()
    assert (await defaults(POLICY).of(changed, NEW.digest)).policy is None
    # What is known needs no question, and a host that has it needs none either.
    assert (await defaults(POLICY).of(changed, OLD.digest)).policy == reference(POLICY)
    half_way = config_set(stable=OLD, next=NEW, policy=reference(POLICY))
    assert (await defaults().of(half_way, NEW.digest)).gone
    assert (await defaults().of(config_set(Rollout(strategy=STAGED)), NEW.digest)).policy is None
    assert len(asked) == 4


def test_the_default_and_its_window_wake_the_sets_that_follow() -> None:
    own = config_set(Rollout(strategy=STAGED))
    far = ConfigSet(ObjectMeta(name="far", namespace="y"))
    waiting = Rollout(strategy=STAGED, window_ref=LocalReference(name="nights"))
    policies = {ObjectKey("x", DEFAULT): RolloutPolicy(POLICY.metadata, waiting)}
    sets = SimpleNamespace(values=lambda: [config_set(), far, own])
    caches = Caches("rollout", cast("Any", {CONFIG_SETS: sets, ROLLOUT_POLICIES: policies}))
    web = [Wake(ObjectKey("x", "web"))]
    assert list(waking.on_policy(Change(ObjectKey("x", DEFAULT), None, POLICY), caches)) == web
    assert list(waking.on_window(Change(ObjectKey("x", "nights"), None, None), caches)) == web
    assert list(waking.on_window(Change(ObjectKey("y", "nights"), None, None), caches)) == []


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (errors.TooLarge("limit is 3145728"), revisions.RevisionTooLarge),
        (errors.InternalError("etcdserver: request is too large"), revisions.RevisionTooLarge),
        (
            errors.InternalError("trying to send message larger than max (3 vs. 2)"),
            revisions.RevisionTooLarge,
        ),
        (errors.InternalError("etcdserver: no leader"), errors.InternalError),
    ],
    ids=str,
)
async def test_a_server_says_in_several_ways_that_a_revision_is_too_large(
    raised: Exception, expected: type[Exception]
) -> None:
    async def get(*_args: object) -> dict[str, Any]:
        return {"metadata": {}}

    async def create(*_args: object) -> None:
        raise raised

    client = cast("Any", SimpleNamespace(get=get, create=create))
    with pytest.raises(expected):
        await revisions.create(client, config_set(), [])
