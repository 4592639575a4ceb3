"""Which content of a set in stages a host has: what it kept, what it reads, and what it does not take."""

from __future__ import annotations

import msgspec

from nodemanager.api.common import configsetrevision, node_conditions
from nodemanager.api.common.rollout import SCALE
from support.staged import HOST, StagedHost, all_at_once, config_set, revision, undecided


async def test_a_revision_is_read_once_and_kept() -> None:
    host = StagedHost(revision(1, "one"))
    wanted = config_set(revision(1, "one"), current="web-1")
    assert await host.has(wanted) == [("one", 1, 1)]
    assert await host.has(wanted) == [("one", 1, 1)]
    paused = config_set(revision(1, "one"), generation=2, current="web-1")  # only how it is rolled out
    assert await host.has(paused) == [("one", 1, 2)]
    same = config_set(revision(3, "one"), generation=4)
    assert await host.has(same) == [("one", 3, 2)]
    assert host.read == ["web-1"]
    assert (host.staged.waits, host.again) == ({}, [])


async def test_what_cannot_be_had_leaves_the_host_as_it_is_and_is_told() -> None:
    forged = msgspec.structs.replace(revision(2, "two"), spec=revision(2, "forged").spec)
    host = StagedHost(revision(1, "one"), forged)
    await host.has(config_set(revision(1, "one")))
    assert await host.has(config_set(revision(2, "two"))) == [("one", 1, 1)]
    assert "its content has another digest" in host.staged.waits["web"].message
    assert await host.has(config_set(revision(3, "three"))) == [("one", 1, 1)]
    assert str(host.staged.waits["web"]) == (
        "RevisionMissing: revision 3 is not there yet: there is no web-3"
    )
    host.offline = True
    assert await host.has(config_set(revision(2, "two"))) == [("one", 1, 1)]
    assert host.staged.waits["web"].message == "revision 2 is not there yet: the API is away"
    assert not host.staged.waits["web"].bare
    assert host.read == ["web-1", "web-2", "web-3"]


async def test_what_is_missing_is_asked_for_less_and_less_often() -> None:
    host = StagedHost(revision(1, "one"))
    await host.has(config_set(revision(1, "one")))
    for _ in range(6):
        await host.has(config_set(revision(2, "two")))
    longest = [15.0, 30.0, 60.0, 120.0, 120.0, 120.0]
    assert all(most / 2 <= asked <= most for asked, most in zip(host.again, longest, strict=True))
    assert len(set(host.again)) == 6  # hosts that lack the same do not come together
    await host.has(config_set(revision(1, "one")))
    await host.has(config_set(revision(2, "two")))
    assert host.again[6] <= 15.0
    host.offline = True
    await host.has(config_set(revision(2, "two")))
    assert len(host.again) == 7  # its return is heard of


async def test_what_is_not_for_the_host_is_not_read() -> None:
    host = StagedHost(revision(1, "one"))
    other = msgspec.structs.replace(HOST, labels={"role": "db"})
    assert await host.has(config_set(revision(1, "one")), other) == []
    assert await host.has(config_set(None)) == []
    assert host.read == []


async def test_nothing_new_is_taken_before_somebody_has_decided_about_it() -> None:
    host = StagedHost(revision(1, "one"))
    unseen = msgspec.structs.replace(
        config_set(None), status=msgspec.structs.replace(config_set(None).status, rollout=None)
    )
    assert await host.has(unseen) == []
    waits = host.staged.waits["web"]
    assert (waits.code, waits.bare, host.again) == (node_conditions.REVISION_UNDECIDED, True, [])
    assert await host.has(unseen, msgspec.structs.replace(HOST, labels={})) == []
    assert host.staged.waits == {}
    await host.has(config_set(revision(1, "one")))
    assert await host.has(unseen) == [("one", 1, 1)]
    newer = undecided(config_set(revision(1, "one")))
    assert await host.has(newer) == [("one", 1, 1)]
    again = msgspec.structs.replace(newer, metadata=msgspec.structs.replace(newer.metadata, uid="another"))
    assert await host.has(again) == [("one", 1, 1)]  # another set of this name: what is stable of that
    assert host.read == ["web-1", "web-1"]


async def test_a_host_that_has_nothing_says_that_it_waits() -> None:
    host = StagedHost()
    assert await host.has(config_set(revision(1, "one"))) == []
    waits = host.staged.waits["web"]
    assert (waits.code, waits.bare) == (node_conditions.REVISION_MISSING, True)


async def test_what_an_older_version_kept_is_read_once_by_each_process() -> None:
    """That one may not have known all that the revision says, and dropped it when it read it."""
    host = StagedHost(revision(1, "one"))
    wanted = config_set(revision(1, "one"), current="web-1")
    await host.has(wanted)
    kept = host.kept[0]
    host.kept = [msgspec.structs.replace(kept, spec=msgspec.structs.replace(kept.spec, files=[]))]
    host.restart()
    host.offline = True
    assert (await host.staged.choose([wanted], HOST))[0].spec.files == []
    host.offline = False
    assert await host.has(wanted) == [("one", 1, 1)]
    assert await host.has(wanted) == [("one", 1, 1)]
    assert host.read == ["web-1", "web-1"]
    host.restart()
    host.known.clear()  # it has that one, so it does not wait for it
    assert await host.has(wanted) == [("one", 1, 1)]
    assert (host.staged.waits, host.again) == ({}, [])  # nor asks for a pass of its own


async def test_what_reached_all_hosts_at_once_is_not_taken_back_for_something_older() -> None:
    """Nobody saw generation 2, which hosts took from the spec; the set is rolled out in stages since 3."""
    old, new = revision(1, "one"), revision(2, "two")
    host = StagedHost(old, new)
    before = all_at_once(config_set(None, generation=2))
    ref = msgspec.to_builtins(configsetrevision.reference(new))
    for more in ({"next": ref}, {"refused": ref}):
        for stable in (old, None):
            host.kept = []
            assert await host.has(before) == [("newest", 0, 2)]
            assert await host.has(config_set(stable, generation=3, **more)) == [("newest", 0, 2)]
    assert await host.has(config_set(old, generation=3, next=ref, threshold=SCALE)) == [("two", 2, 2)]
    assert await host.has(config_set(old, generation=3, refused=ref)) == [("one", 1, 1)]
    host.kept = [before]
    assert await host.has(config_set(new, generation=3)) == [("two", 2, 2)]
    assert host.staged.waits == {}


async def test_a_host_that_was_away_takes_what_became_stable_meanwhile() -> None:
    host = StagedHost(revision(2, "two"))
    await host.has(all_at_once(config_set(None, generation=1)))
    ref = msgspec.to_builtins(configsetrevision.reference(revision(3, "three")))
    assert await host.has(config_set(revision(2, "two"), generation=3, next=ref)) == [("two", 2, 2)]
