"""Which content of a set in stages a host has: what it kept, what it reads, and what it does not take."""

from __future__ import annotations

from typing import Any

import msgspec

from nodemanager.agent.declared.staged_sets import AGAIN_SECONDS, StagedSets
from nodemanager.api.common import choosing, configsetrevision
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.configsetrevision import ConfigSetRevision
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectMeta

LABELS = {"role": "web"}
HOST = ObjectMeta(name="a", uid="u1", labels=LABELS)


def revision(number: int, content: str) -> ConfigSetRevision:
    said = {"files": [{"path": "/motd", "content": content}]}
    spec = {
        "configSet": "web", "revision": number, "generation": number, "labels": LABELS, "content": said,
        "digest": configsetrevision.digest_of(LABELS, said),
    }  # fmt: skip
    meta = {"name": f"web-{number}", "resourceVersion": str(number)}
    return msgspec.convert({"metadata": meta, "spec": spec}, ConfigSetRevision)


def config_set(stable: ConfigSetRevision | None, generation: int = 1, **status: Any) -> ConfigSet:
    published: dict[str, Any] = {"observedGeneration": generation, **status}
    if stable is not None:
        published["stable"] = msgspec.to_builtins(configsetrevision.reference(stable))
    meta = {"name": "web", "uid": "s", "labels": LABELS, "generation": generation}
    spec = {"rollout": {"strategy": "Staged"}, "files": [{"path": "/motd", "content": "newest"}]}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"rollout": published}}, ConfigSet)


class Host:
    """Reads revisions, and keeps what it has."""

    def __init__(self, *known: ConfigSetRevision) -> None:
        self.known = {one.metadata.name: one for one in known}
        self.read: list[str] = []
        self.kept: list[ConfigSet] = []
        self.again: list[float] = []
        self.offline = False
        self.staged = StagedSets(self.get, lambda: self.kept, lambda: self.offline, self.again.append)

    async def get(self, name: str) -> ConfigSetRevision:
        self.read.append(name)
        if name not in self.known:
            raise errors.NotFound(f"there is no {name}")
        return self.known[name]

    async def has(self, one: ConfigSet, host: ObjectMeta = HOST) -> list[tuple[str, int, int]]:
        """Return content, revision and generation of what is for the host, and keep it."""
        self.kept = await self.staged.choose([one], host)
        return [
            (each.spec.files[0].content, choosing.applied(each).revision, each.metadata.generation)
            for each in self.kept
        ]


async def test_a_revision_is_read_once_and_kept() -> None:
    host = Host(revision(1, "one"))
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
    host = Host(revision(1, "one"), forged)
    await host.has(config_set(revision(1, "one")))
    assert await host.has(config_set(revision(2, "two"))) == [("one", 1, 1)]
    assert "its content has another digest" in host.staged.waits["web"]
    assert await host.has(config_set(revision(3, "three"))) == [("one", 1, 1)]
    assert host.staged.waits["web"] == "revision 3 is not there yet: there is no web-3"
    host.offline = True
    assert await host.has(config_set(revision(2, "two"))) == [("one", 1, 1)]
    assert host.staged.waits["web"] == "revision 2 is not there yet: the API is away"
    assert host.read == ["web-1", "web-2", "web-3"]
    assert host.again == [AGAIN_SECONDS] * 3


async def test_what_is_not_for_the_host_is_not_read() -> None:
    host = Host(revision(1, "one"))
    other = msgspec.structs.replace(HOST, labels={"role": "db"})
    assert await host.has(config_set(revision(1, "one")), other) == []
    assert await host.has(config_set(None)) == []
    assert host.read == []


async def test_nothing_new_is_taken_before_somebody_has_decided_about_it() -> None:
    host = Host(revision(1, "one"))
    undecided = msgspec.structs.replace(
        config_set(None), status=msgspec.structs.replace(config_set(None).status, rollout=None)
    )
    assert await host.has(undecided) == []
    await host.has(config_set(revision(1, "one")))
    assert await host.has(undecided) == [("one", 1, 1)]
    newer = config_set(revision(1, "one"), generation=1)
    newer = msgspec.structs.replace(newer, metadata=msgspec.structs.replace(newer.metadata, generation=2))
    assert await host.has(newer) == [("one", 1, 1)]
    again = msgspec.structs.replace(newer, metadata=msgspec.structs.replace(newer.metadata, uid="another"))
    assert await host.has(again) == [("one", 1, 1)]  # another set of this name: what is stable of that
    assert host.read == ["web-1", "web-1"]
