"""What a host would do because of a proposal, and of nothing else; none of it is done."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from msgspec import to_builtins

from nodemanager.agent.declared import known_sets
from nodemanager.agent.declared.contents import Contenter
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.declared.desired_state import DesiredState, DesiredStateCache
from nodemanager.agent.drift import drift
from nodemanager.agent.drift.drift import DriftWatch
from nodemanager.agent.tasks import proposals
from nodemanager.agent.tasks.proposals import Proposals, ProposedState
from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec
from nodemanager.api.common.configsetpreview import (
    CONFIG_SET_PREVIEWS,
    ConfigSetPreview,
    ConfigSetPreviewSpec,
    ProposedSet,
    digest_of,
)
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.maintenance.task_previews import ProposalRef, TaskPreview
from nodemanager.host.inventory.identity import Identity
from nodemanager.kube.core import Secret
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan import merge
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.tasks import previewed
from support.agent_process import owned
from support.memory_host import Host
from support.owning_host import OwningHost, plain_set, pruning_set
from support.rendering import Inline
from support.root_tree import literal_contents


@contextlib.asynccontextmanager
async def alone() -> AsyncIterator[None]:
    yield


async def nothing() -> None:
    return None


def config_set(**spec: Any) -> ConfigSet:
    return ConfigSet(metadata=ObjectMeta(name="web"), spec=msgspec.convert(spec, ConfigSetSpec))


def state_of(*sets: ConfigSet) -> DesiredState:
    desired = merge.merge(sets)
    contents = literal_contents(desired)
    return DesiredState(desired, contents, drift.declarations(desired, contents))


async def ask(
    host: Host, proposed: ConfigSet, now: ConfigSet, watch: DriftWatch | None = None
) -> TaskPreview:
    """Return what a host says; `watch` remembers what held."""

    def observe_only(state: DesiredState) -> frozenset[ResourceId]:
        return watch.observe_only(state.declared, state.observed) if watch else frozenset()

    unused = cast("Any", None)
    proposals = Proposals(host.converger, unused, unused, alone, nothing, observe_only)
    told = [known_sets.told([one], [one], ObjectMeta(uid="node")) for one in (proposed, now)]
    return await proposals.compared(*map(ProposedState, map(state_of, (proposed, now)), told))


async def test_a_service_would_be_restarted_and_no_program_runs(tmp_path: Path) -> None:
    host, config, ran = Host(tmp_path), str(tmp_path / "nginx.conf"), tmp_path / "ran"
    nginx = {"name": "nginx", "ensure": "running", "enable": True, "subscribe_files": [config]}
    missing = {"name": "no-such-package"}
    now = config_set(files=[owned(config, content="one\n")], services=[nginx], packages=[missing])
    await host.converge(now)
    calls = list(host.services.calls)
    asks = {"command": "/bin/touch", "args": [str(ran)]}
    proposed = config_set(
        files=[owned(config, content="two\n")], services=[nginx], packages=[missing],
        executions=[{"command": "/bin/touch", "args": [str(ran)], "onlyIf": asks}],
    )  # fmt: skip
    said = await ask(host, proposed, now)
    assert [(one.verb, one.blocked) for one in said.changes] == [
        ("write", False), ("restart", False), ("may run", False),
    ]  # fmt: skip
    assert (said.changed, said.blocked) == (3, 0), "what is to be done anyway is not told"
    left = (tmp_path / "nginx.conf").read_text()
    assert (left, ran.exists(), host.services.calls) == ("one\n", False, calls)
    same = await ask(host, now, now)
    assert (same.changed, same.blocked, same.changes) == (0, 0, [])


async def test_to_repair_what_was_only_observed_is_a_change(tmp_path: Path) -> None:
    """The host would overwrite what somebody changed there, and restart what uses it."""
    host, file, watch = Host(tmp_path), tmp_path / "nginx.conf", DriftWatch()
    nginx = {"name": "nginx", "ensure": "running", "subscribe_files": [str(file)]}
    spec = {"files": [owned(str(file), content="ours\n")], "services": [nginx]}
    now, proposed = config_set(drift="observe", **spec), config_set(drift="repair", **spec)
    watch.judge(state_of(now).declared, await host.converge(now))
    file.write_text("by hand\n")
    said = await ask(host, proposed, now, watch)
    assert [(one.resource, one.verb) for one in said.changes] == [
        (f"file:{file}", "write"), ("service:nginx", "restart"),
    ]  # fmt: skip
    assert (await ask(host, now, now, watch)).changes == []
    assert (await ask(host, now, proposed, watch)).changes == [], "what is left alone then is no change"


async def test_what_would_be_taken_back_is_told_and_what_is_only_let_go_too(tmp_path: Path) -> None:
    host = OwningHost(tmp_path)
    new, old, left = (str(host.path(name)) for name in ("new", "old", "left"))
    host.path("old").write_text("theirs\n")
    files = [owned(path, content="ours\n") for path in (new, old)]
    now = pruning_set(files=files)
    await host.has(now)
    said = await ask(host, pruning_set(), now)
    assert {one.resource: (one.verb, one.reason, one.details) for one in said.changes} == {
        f"file:{new}": ("remove", previewed.PUT_BACK, ""), f"file:{old}": ("write", previewed.PUT_BACK, ""),
    }  # fmt: skip
    assert "theirs" not in repr(said)
    kept = plain_set(files=[*files, owned(left, content="ours\n")])
    await host.has(kept)
    said = await ask(host, plain_set(), kept)
    assert {one.verb for one in said.changes} == {"release"}
    less = plain_set(files=files)
    await host.has(less)
    said = await ask(host, pruning_set(files=files), less)
    assert [(one.resource, one.verb) for one in said.changes] == [(f"file:{left}", "remove")], (
        "what was left behind earlier goes, too"
    )


async def test_another_way_to_be_in_the_way_is_a_change_and_another_set_is_none(tmp_path: Path) -> None:
    host, path = Host(tmp_path), str(tmp_path / "d")
    (tmp_path / "d").mkdir()
    one, other = (config_set(files=[owned(path, content=text)]) for text in ("1", "2"))
    assert [change.blocked for change in (await ask(host, other, one)).changes] == [True]
    assert (await ask(host, one, one)).changes == []


@dataclass
class Api:
    """What a host knows of an API, and what of it changes while something is read there."""

    secrets: dict[str, bytes]
    states: DesiredStateCache
    sets: list[ConfigSet]
    meanwhile: Callable[[], None] = lambda: None
    renderer: Inline = field(default_factory=Inline)
    patience: list[float] = field(default_factory=list)
    peers: tuple[ManagedNode, ...] = ()

    async def find(self, resource: Any, name: str, seconds: float) -> Any:
        self.patience.append(seconds)
        if resource is CONFIG_SET_PREVIEWS:
            content = [ProposedSet(one.metadata.name, {}, to_builtins(one.spec)) for one in self.sets]
            spec = ConfigSetPreviewSpec(content, hosts=["a"], digest=digest_of(content, []))
            return ConfigSetPreview(ObjectMeta(name=name), spec)
        self.meanwhile()
        await asyncio.sleep(0)
        return Secret(ObjectMeta(name=name, uid=f"uid-{name}"), {"x": self.secrets[name]})

    def node(self) -> ManagedNode:
        return ManagedNode(metadata=ObjectMeta(name="a"))

    def proposals(self, host: Host) -> Proposals:
        inputs = DeclaredInputs(config_sets=self.states.sets, nodes=self.peers)
        reach = SimpleNamespace(withheld=lambda: "")
        sources = SimpleNamespace(inputs=lambda: inputs, reachability=reach)
        identity = Identity("a", "debian", (), "linux", "x86_64", "6")
        declared = SimpleNamespace(desired_states=self.states, sources=sources, identity=identity)
        wild = cast("Any", declared), cast("Any", self)
        return Proposals(host.converger, *wild, alone, nothing, lambda _: frozenset())

    async def answer(self, host: Host) -> TaskPreview:
        content = [ProposedSet(one.metadata.name, {}, to_builtins(one.spec)) for one in self.sets]
        return await self.proposals(host).answer(ProposalRef("p", digest_of(content, [])))


async def declared_now(*sets: ConfigSet, peers: tuple[ManagedNode, ...] = ()) -> DesiredStateCache:
    states = DesiredStateCache(Contenter(Inline()))
    await states.make(sets, DeclaredInputs(nodes=peers), ManagedNode())
    return states


async def test_digests_need_all_secrets_also_those_of_the_data(tmp_path: Path) -> None:
    """Who may read one of two Secrets must not be able to try out what is in the other."""

    async def told(secret_refs: list[str]) -> str:
        template = '{{ .Data.x }}{{ index .Node.Secrets "x" }}' if secret_refs else "{{ .Data.x }}"
        file = owned(str(tmp_path / "f"), template=template, secretRefs=secret_refs)
        proposed = config_set(nodeSelector={}, files=[file], dataFrom=[{"secretRef": {"name": "layer"}}])
        api = Api({"own": b"one", "layer": b"two"}, await declared_now(), [proposed])
        (change,) = (await api.answer(Host(tmp_path))).changes
        return change.details

    def digest(key: bytes, data: bytes) -> str:
        return hmac.new(key, data, "sha256").hexdigest()[:16]

    assert digest(b"uid-layer", b"two") in await told([])
    assert digest(b"uid-ownuid-layer", b"twob25l") in await told(["own"])


async def test_a_pass_meanwhile_changes_neither_side(tmp_path: Path) -> None:
    """What another set became while Secrets were read is not told as if the proposal undid it."""
    path = str(tmp_path / "other")
    other = config_set(nodeSelector={}, files=[owned(path, content="1")])
    states = await declared_now(msgspec.structs.replace(other, metadata=ObjectMeta(name="other")))
    proposed = config_set(
        nodeSelector={}, files=[owned(str(tmp_path / "f"), template="x", secretRefs=["own"])]
    )
    api = Api({"own": b"one"}, states, [proposed], lambda: states._take([config_set()]))
    said = await api.answer(Host(tmp_path))
    assert states.last is None, "it changed"
    assert [one.resource for one in said.changes] == [f"file:{tmp_path}/f"]


async def test_a_proposal_takes_back_what_the_set_of_its_name_has_left(tmp_path: Path) -> None:
    host, path = OwningHost(tmp_path), str(tmp_path / "f")
    now = plain_set(nodeSelector={}, files=[owned(path, content="1")])
    await host.has(now)
    proposed = pruning_set(nodeSelector={}, packages=[{"name": "nginx"}])
    said = await Api({}, await declared_now(now), [proposed]).answer(host)
    assert (f"file:{path}", "remove") in [(one.resource, one.verb) for one in said.changes]


async def test_all_that_is_read_has_one_patience(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"s{number}" for number in range(30)]
    file = owned(str(tmp_path / "f"), template="x", secretRefs=names)
    api = Api(dict.fromkeys(names, b""), await declared_now(), [config_set(nodeSelector={}, files=[file])])
    clock = asyncio.get_running_loop().time()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: clock + len(api.patience))
    await api.answer(Host(tmp_path))
    waited = api.patience[1:]
    assert waited[0] <= proposals.READ_SECONDS
    assert waited[-1] < 0, "the last ones are not waited for"


async def test_news_of_other_hosts_are_no_change_of_a_proposal(tmp_path: Path) -> None:
    def peer(release: str) -> tuple[ManagedNode, ...]:
        return (ManagedNode(ObjectMeta(name="b"), status=ManagedNodeStatus(release=release)),)

    template = '{{ range (ds "data").Nodes }}{{ .Status.Release }}{{ end }}'
    reads = config_set(nodeSelector={}, files=[owned(str(tmp_path / "peers"), template=template)])
    states = await declared_now(
        msgspec.structs.replace(reads, metadata=ObjectMeta(name="peers")), peers=peer("12")
    )
    proposed = config_set(nodeSelector={}, files=[owned(str(tmp_path / "f"), content="x")])
    said = await Api({}, states, [proposed], peers=peer("13")).answer(Host(tmp_path))
    assert [one.resource for one in said.changes] == [f"file:{tmp_path}/f"]
