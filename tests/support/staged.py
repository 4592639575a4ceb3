"""Sets that are rolled out in stages, their revisions, and a host that has some of them."""

from __future__ import annotations

from typing import Any

import msgspec

from nodemanager.agent.declared.staged_sets import StagedSets
from nodemanager.api.common import choosing, configsetrevision
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.configsetrevision import ConfigSetRevision
from nodemanager.api.common.rollout import PolicyRef
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectMeta

LABELS = {"role": "web"}
HOST = ObjectMeta(name="a", uid="u1", labels=LABELS)


def revision(number: int, content: str, generation: int = 0) -> ConfigSetRevision:
    """A revision of the set with one file."""
    said = {"files": [{"path": "/motd", "content": content}]}
    spec = {
        "configSet": "web", "revision": number, "generation": generation or number, "labels": LABELS,
        "content": said, "digest": configsetrevision.digest_of(LABELS, said),
    }  # fmt: skip
    meta = {"name": f"web-{number}", "resourceVersion": str(number)}
    return msgspec.convert({"metadata": meta, "spec": spec}, ConfigSetRevision)


def config_set(stable: ConfigSetRevision | None, generation: int = 1, **status: Any) -> ConfigSet:
    """What the operator has published of a set, which says `newest` by now."""
    published: dict[str, Any] = {"observedGeneration": generation, **status}
    if stable is not None:
        published["stable"] = msgspec.to_builtins(configsetrevision.reference(stable))
    meta = {"name": "web", "uid": "s", "labels": LABELS, "generation": generation}
    spec = {"rollout": {"strategy": "Staged"}, "files": [{"path": "/motd", "content": "newest"}]}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"rollout": published}}, ConfigSet)


def all_at_once(one: ConfigSet) -> ConfigSet:
    """The same set, when it reaches all hosts at once."""
    return msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, rollout=None))


def following(one: ConfigSet) -> ConfigSet:
    """The same set, when the operator has said that it follows the default of its namespace."""
    assert one.status.rollout is not None
    status = msgspec.structs.replace(one.status.rollout, policy=PolicyRef(name="default", uid="p"))
    told = msgspec.structs.replace(one.status, rollout=status)
    return msgspec.structs.replace(all_at_once(one), status=told)


def undecided(one: ConfigSet) -> ConfigSet:
    """The same set, changed by somebody, before the operator has seen it."""
    return msgspec.structs.replace(
        one, metadata=msgspec.structs.replace(one.metadata, generation=one.metadata.generation + 1)
    )


class StagedHost:
    """Reads revisions, and keeps what it has."""

    def __init__(self, *known: ConfigSetRevision) -> None:
        self.known = {one.metadata.name: one for one in known}
        self.read: list[str] = []
        self.kept: list[ConfigSet] = []
        self.again: list[float] = []
        self.offline = False
        self.policy: bool | errors.KubeError = False
        """Whether the namespace has a default, or why nobody can tell."""
        self.asked = 0
        self.restart()

    def restart(self) -> None:
        """Have another process at work, which knows what was kept."""
        self.staged = StagedSets(
            self.get, self.default, lambda: self.kept, lambda: self.offline, self.again.append
        )

    async def default(self) -> bool:
        self.asked += 1
        if isinstance(self.policy, Exception):
            raise self.policy
        return self.policy

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
