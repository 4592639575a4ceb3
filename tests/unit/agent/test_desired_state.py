"""What is wanted: worked out when something changed, and only then; and who is a reason to look again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from nodemanager.agent.declared.contents import Contenter
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.declared.desired_state import DesiredStateCache, visible
from nodemanager.agent.drift.drift import DriftWatch, declarations
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.declarations import File
from nodemanager.api.common.managednode import (
    AppliedConfigSet,
    Drift,
    Interface,
    ManagedNode,
    ManagedNodeStatus,
)
from nodemanager.host.inventory.identity import Identity
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan import merge
from nodemanager.plan.desired import Content, Failure
from nodemanager.plan.templates import NotRendered, reads_peers
from support.rendering import Inline
from support.root_tree import config_set, literal_contents

WHO = Identity("web1", "debian", (), "linux", "x86_64", "6.1")


def node(name: str = "web1", labels: dict[str, str] | None = None, **status: Any) -> ManagedNode:
    return ManagedNode(
        metadata=ObjectMeta(name=name, labels=labels or {}), status=ManagedNodeStatus(**status)
    )


def templated(text: str, **fields: Any) -> ConfigSet:
    return config_set("a", files=[{"path": "/x", "template": text, **fields}])


@pytest.mark.parametrize(
    ("template", "engine", "expected"),
    [
        ("{{ (ds `data`).Node.Name }}", "gotemplate", False),
        ('{{ (datasource "data").Node.Name }}. Bye.', "gotemplate", False),
        ("{{ .Node.Labels.role }}", "gotemplate", False),
        ("{{ range .Nodes }}{{ .Name }}{{ end }}", "gotemplate", True),
        ('{{ range (ds "data").nodes }}x{{ end }}', "gotemplate", True),
        ("{{ len .NODES }}", "gotemplate", True),
        ('{{ ds "data" | toJSON }}', "gotemplate", True),
        ("{{ . | toJSON }}", "gotemplate", True),
        ("{{ $ | toJSON }}", "gotemplate", True),
        ('{{ index . (print "No" "des") }}', "gotemplate", True),
        ('{{ $d := ds "data" }}{{ index $d (print "No" "des") }}', "gotemplate", True),
        ("{{ $n := .Node }}{{ $n.Name }}", "gotemplate", False),
        ("plain. text $ . ", "gotemplate", False),
        ("{{ Node.Name }}", "jinja", False),
        ("{% for n in nodes %}{{ n.Name }}{% endfor %}", "jinja", True),
    ],
)
def test_who_reads_peers(template: str, engine: str, expected: bool) -> None:
    assert reads_peers(File(path="/x", template=template, engine=engine)) is expected


async def test_names_of_secrets_depend_on_the_host_and_not_on_its_peers() -> None:
    desired_states = DesiredStateCache(Contenter(Inline()))
    sets = [templated("x", secretRefs=["db-{{ .Node.Labels.role }}"])]
    assert (await desired_states.references(sets, node(labels={"role": "web"}))).secrets == ("db-web",)
    assert (await desired_states.references(sets, node(labels={"role": "db"}))).secrets == ("db-db",)
    assert not desired_states.reads_peers


async def test_nothing_is_worked_out_twice() -> None:
    desired_states = DesiredStateCache(Contenter(Inline()))

    async def make(content: str = "one", **more: Any) -> object:
        sets = [config_set("a", files=[{"path": "/x", "content": content}])]
        return await desired_states.make(sets, DeclaredInputs(tuple(sets), **more), node(release=str(more)))

    first = await make()
    assert await make() is first
    assert await make(secrets={"s": {}}) is first  # there is no template that could read it
    assert await make("two") is not first


async def test_templates_are_made_again_for_what_they_can_see() -> None:
    desired_states = DesiredStateCache(Contenter(Inline()))
    sets = [templated("{{ .Node.Name }}{{ .Node.Status.Release }}", configMapRefs=["m"])]

    async def make(own: ManagedNode, *peers: ManagedNode, value: str = "1") -> object:
        return await desired_states.make(
            sets, DeclaredInputs(tuple(sets), (own, *peers), {}, {"m": {"k": value}}), own
        )

    first = await make(node(release="6"))
    assert await make(node(release="6"), node("other", release="9")) is first  # nobody reads peers
    assert await make(node(release="6"), value="2") is not first
    changed = (
        await desired_states.make(sets, DeclaredInputs(tuple(sets), (), {}, {"m": {}}), node(release="7"))
    ).contents["/x"]
    assert isinstance(changed, Content)
    assert changed.data == b"web17"


async def test_peers_count_where_somebody_reads_them() -> None:
    desired_states = DesiredStateCache(Contenter(Inline()))
    sets = [templated("{{ range .Nodes }}{{ .Name }} {{ end }}")]
    for peers, expected in (((), b"web1 "), ((node("web2"),), b"web1 web2 ")):
        made = (
            await desired_states.make(sets, DeclaredInputs(tuple(sets), (node(), *peers)), node())
        ).contents["/x"]
        assert isinstance(made, Content)
        assert made.data == expected


async def test_a_missing_secret_fails_one_file_and_says_what_to_do() -> None:
    sets = [
        config_set(
            "a",
            files=[{"path": "/x", "template": "x", "secretRefs": ["gone"]}, {"path": "/y", "content": "y"}],
        )
    ]
    made = (
        await DesiredStateCache(Contenter(Inline())).make(sets, DeclaredInputs(tuple(sets)), node())
    ).contents
    assert isinstance(made["/y"], Content)
    failed = made["/x"]
    assert isinstance(failed, Failure)
    assert "Secret gone does not exist, or this host may not read it; create it" in failed.message


async def test_content_made_of_secrets_is_marked_and_errors_do_not_repeat_it() -> None:
    inputs = DeclaredInputs(secrets={"s": {"k": b"hush-hush"}})
    sets = [templated("{{ index .Node.Secrets `k` | base64.Decode }}", secretRefs=["s"])]
    made = (await DesiredStateCache(Contenter(Inline())).make(sets, inputs, node())).contents["/x"]
    assert isinstance(made, Content)
    assert (made.data, made.secret) == (b"hush-hush", True)
    sets = [templated("{{ fail (index .Node.Secrets `k` | base64.Decode) }}", secretRefs=["s"])]
    failed = (await DesiredStateCache(Contenter(Inline())).make(sets, inputs, node())).contents["/x"]
    assert isinstance(failed, Failure)
    assert "hush" not in failed.message


def test_time_stamps_and_versions_are_no_reason_to_render_again() -> None:
    """Two hosts that write each other's into a file would never come to rest."""
    old = node(configsets=[AppliedConfigSet(name="a", last_applied="1")], drift=Drift(repaired=1))
    new = node(configsets=[AppliedConfigSet(name="a", last_applied="2")], drift=Drift(repaired=2))
    assert visible(old) == visible(new)
    up = node(conditions=[Condition(type="Ready", status="True", last_transition_time="1")])
    same = node(conditions=[Condition(type="Ready", status="True", last_transition_time="2")])
    down = node(conditions=[Condition(type="Ready", status="False")])
    assert visible(up) == visible(same) != visible(down)
    assert visible(node()) != visible(node(interfaces={"eth0": Interface(ipv4=["10.0.0.1"])}))
    assert visible(node()) != visible(node(labels={"a": "b"}))


def test_a_world_knows_its_host_and_what_is_meant_for_it() -> None:
    known = node(labels={"role": "web", "kubernetes.io/os": "beos"})
    mine = ConfigSet(metadata=ObjectMeta(name="m", labels={"role": "web", "kubernetes.io/os": "debian"}))
    other = ConfigSet(metadata=ObjectMeta(name="o", labels={"role": "db"}))
    inputs = DeclaredInputs(
        (mine, other, ConfigSet(metadata=ObjectMeta(name="nobody"))), (known, node("web2"))
    )
    found = inputs.node(WHO)
    assert found.metadata.labels["role"] == "web"
    assert found.metadata.labels["kubernetes.io/os"] == "linux"  # ours to say
    assert inputs.matching(found) == [mine]
    assert DeclaredInputs().node(WHO).metadata.name == "web1"


class Story:
    """Passes over one file, and what they are taken for."""

    def __init__(self) -> None:
        self.watch = DriftWatch()
        self.repaired = 0

    def passed(self, content: str, outcome: ResourceOutcome, *, repairs: bool = True) -> bool:
        desired = merge.merge([config_set("a", files=[{"path": "/x", "content": content}])])
        done = Result(desired.files[0].id, ("a",), outcome, repairs=repairs)
        numbers = declarations(desired, literal_contents(desired))
        judged = self.watch.judge(numbers, [done])
        self.repaired += sum(one.outcome is ResourceOutcome.CHANGED for one in self.watch.fresh(judged))
        return judged[0].drifted


def test_news_is_not_drift() -> None:
    story = Story()
    assert not story.passed("one", ResourceOutcome.CHANGED)
    assert not story.passed("one", ResourceOutcome.UNCHANGED, repairs=False)
    assert not story.passed("two", ResourceOutcome.CHANGED)
    assert story.passed("two", ResourceOutcome.CHANGED)
    assert story.repaired == 1


def test_what_could_not_be_put_back_is_drift_but_not_repaired_until_it_is() -> None:
    story = Story()
    story.passed("one", ResourceOutcome.CHANGED)
    assert story.passed("one", ResourceOutcome.FAILED)
    assert story.passed("one", ResourceOutcome.BLOCKED)
    assert story.repaired == 0
    assert story.passed("one", ResourceOutcome.CHANGED)
    assert story.repaired == 1


def test_what_never_held_cannot_drift() -> None:
    story = Story()
    assert not story.passed("one", ResourceOutcome.FAILED)
    assert not story.passed("one", ResourceOutcome.FAILED)
    assert not story.passed("one", ResourceOutcome.CHANGED)


class Shelf:
    """Where a process leaves what it knows to the next."""

    def __init__(self) -> None:
        self.held: dict[str, str] = {}
        self.saved = 0

    def load_held(self) -> dict[str, str]:
        return dict(self.held)

    def save_held(self, held: Mapping[str, str]) -> bool:
        self.held = dict(held)
        self.saved += 1
        return True


def test_a_new_process_without_a_memory_knows_nothing_of_what_held_before() -> None:
    story = Story()
    assert not story.passed("one", ResourceOutcome.CHANGED)
    story.watch = DriftWatch()
    assert not story.passed("one", ResourceOutcome.CHANGED)
    assert story.passed("one", ResourceOutcome.CHANGED)


def test_what_held_is_known_to_the_next_process_and_saved_only_when_it_is_new() -> None:
    shelf, story = Shelf(), Story()
    story.watch = DriftWatch(shelf)
    story.passed("one", ResourceOutcome.CHANGED)
    story.watch.save()
    story.passed("one", ResourceOutcome.UNCHANGED, repairs=False)
    story.watch.save()
    assert shelf.saved == 1
    story.watch = DriftWatch(shelf)
    assert not story.passed("two", ResourceOutcome.CHANGED)
    story.watch = DriftWatch(shelf)
    assert story.passed("one", ResourceOutcome.CHANGED)


def test_declarations_change_with_the_content_of_templates() -> None:
    desired = merge.merge([templated("{{ .Node.Name }}")])
    numbers = [declarations(desired, {"/x": Content(b"", digest)}) for digest in ("1", "2")]
    assert numbers[0] != numbers[1]
    assert msgspec.json.encode(list(numbers[0].values())) != msgspec.json.encode(list(numbers[1].values()))


async def test_all_that_is_to_be_rendered_goes_together_and_only_once() -> None:
    renderer = Inline()
    desired_states = DesiredStateCache(Contenter(renderer))
    files = [
        {"path": f"/{n}", "template": f"{{{{ .Node.Name }}}}{n}", "engine": "gotemplate"} for n in range(5)
    ]
    sets = [config_set("a", files=files)]
    first = await desired_states.make(sets, DeclaredInputs(tuple(sets)), node())
    assert [len(each) for each in renderer.asked] == [5]
    assert await desired_states.make(sets, DeclaredInputs(tuple(sets)), node()) is first
    await desired_states.make(
        sets, DeclaredInputs(tuple(sets)), node(release="6")
    )  # other data, so all of them again
    await desired_states.make(sets, DeclaredInputs(tuple(sets)), node())  # and these are known
    assert [len(each) for each in renderer.asked] == [5, 5]


async def test_what_may_pass_is_tried_again_and_what_is_wrong_is_not() -> None:
    renderer = Inline()
    desired_states = DesiredStateCache(Contenter(renderer))
    sets = [templated("{{ .Node.Name }}", secretRefs=["{{ .Node.Name }}"])]
    inputs = DeclaredInputs(tuple(sets), secrets={"web1": {}})
    renderer.failing = NotRendered("/x", "the renderer cannot be started")
    for _ in range(2):
        assert (await desired_states.references(sets, node())).errors
        failed = (await desired_states.make(sets, inputs, node())).contents["/x"]
        assert failed == Failure("cannot render /x: the renderer cannot be started", passing=True)
    assert len(renderer.asked) == 4
    renderer.failing = None
    assert (await desired_states.references(sets, node())).secrets == ("web1",)
    made = (await desired_states.make(sets, inputs, node())).contents["/x"]
    assert isinstance(made, Content)
    assert made.data == b"web1"
    wrong = [templated("{{ .Node.Nope }}")]
    for _ in range(2):
        assert isinstance((await desired_states.make(wrong, inputs, node())).contents["/x"], Failure)
    asked = len(renderer.asked)
    await desired_states.make(wrong, inputs, node())
    assert len(renderer.asked) == asked


async def test_half_a_character_fails_one_file_only() -> None:
    sets = [
        config_set(
            "a",
            files=[
                {"path": "/x", "template": r"{{ '\ud800' }}", "engine": "jinja"},
                {"path": "/y", "template": "{{ Node.Name }}", "engine": "jinja"},
            ],
        )
    ]
    made = (
        await DesiredStateCache(Contenter(Inline())).make(sets, DeclaredInputs(tuple(sets)), node())
    ).contents
    assert isinstance(made["/y"], Content)
    failed = made["/x"]
    assert isinstance(failed, Failure)
    assert "half a character" in failed.message


@pytest.mark.timeout(120)
def test_to_tell_who_reads_peers_takes_no_time() -> None:
    for text in ("{{ " * 500_000, "{{ (" + " " * 1_000_000, "{{ ds `data` " * 100_000, "((((" * 300_000):
        reads_peers(File(path="/x", template=text))
