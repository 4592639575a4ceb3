"""A part of a plan is that part of the whole plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.api.common.configset import ConfigSet
from nodemanager.plan import executions, files, focus, merge, packages, resources, services
from nodemanager.plan.desired import Contents, Desired
from nodemanager.plan.facts import Facts, FileFact, Kind, PackageFacts, Pending, ServiceFact
from nodemanager.plan.host_kinds import Naming
from nodemanager.plan.layout import Layout
from nodemanager.plan.resources import ResourceId, file_id
from nodemanager.plan.steps import Blocked, FileStep, RemovePath, Step
from support.note_kind import NOTE, NOTES, Note, kinds_with, noted_set
from support.root_tree import config_set, literal_contents

PATHS = ("/a", "/a/b", "/a/b/c", "/a/d", "/ab", "/e", "/e/f", "/etc/systemd/system/web.service")
NAMES = ("web", "db", "cron")
SUBSCRIPTIONS = st.lists(st.sampled_from(PATHS), max_size=2, unique=True)
OWNERS = st.sampled_from(["", "0", "www", "nobody-knows"])


def _unique(declarations: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    return list({one[key]: one for one in declarations}.values())


@st.composite
def config_sets(draw: st.DrawFn) -> list[ConfigSet]:
    """Up to three sets that agree, overrule and contradict each other."""
    file = st.fixed_dictionaries(
        {
            "path": st.sampled_from(PATHS),
            "ensure": st.sampled_from(["file", "directory", "symlink", "absent"]),
            "content": st.sampled_from(["one", "two"]),
            "target": st.just("/ab"),
            "owner": OWNERS,
            "group": OWNERS,
            "purge": st.booleans(),
            "create_only": st.booleans(),
        }
    )
    service = st.fixed_dictionaries(
        {
            "name": st.sampled_from(NAMES),
            "ensure": st.sampled_from(["running", "stopped"]),
            "subscribe_files": SUBSCRIPTIONS,
        }
    )
    package = st.fixed_dictionaries(
        {"name": st.sampled_from(NAMES), "ensure": st.sampled_from(["present", "absent", "latest"])}
    )
    execution = st.fixed_dictionaries({"command": st.just("/bin/true"), "subscribe_files": SUBSCRIPTIONS})
    return [
        config_set(
            name,
            priority=draw(st.integers(0, 1)),
            files=_unique(draw(st.lists(file, max_size=6)), "path"),
            services=_unique(draw(st.lists(service, max_size=2)), "name"),
            packages=_unique(draw(st.lists(package, max_size=2)), "name"),
            executions=draw(st.lists(execution, max_size=1)),
        )
        for name in ("one", "two", "three")
    ]


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    """Anything that may be seen of a host."""
    fact = st.builds(
        FileFact,
        st.sampled_from(list(Kind)),
        st.sampled_from([0o644, 0o600, 0o755]),
        st.sampled_from([0, 33]),
        digest=st.sampled_from(["", "0" * 64]),
        error=st.sampled_from(["", "", "cannot look at it"]),
    )
    service = st.builds(ServiceFact, st.booleans(), st.booleans(), st.booleans(), stale=st.booleans())
    listed = st.lists(st.sampled_from(["b", "d", "f", "stray"]), unique=True).map(tuple)
    return Facts(
        files={path: draw(fact) for path in (*PATHS, "/a/stray", "/e/stray")},
        listings={path: draw(st.none() | listed) for path in ("/a", "/a/b", "/e")},
        packages=PackageFacts(dict.fromkeys(draw(st.sets(st.sampled_from(NAMES))), "1"), {"web": "2"}),
        services={ResourceId(resources.SERVICE, name): draw(service) for name in NAMES},
        users={"www": 33},
        groups={"www": 33},
        pending={ResourceId(resources.SERVICE, "web"): Pending(("/a",))} if draw(st.booleans()) else {},
    )


def plan(desired: Desired, contents: Contents, seen: Facts, whole: Layout | None = None) -> list[Step]:
    return [
        *packages.plan_packages(desired, seen),
        *files.plan_files(desired, contents, seen, whole),
        *services.plan_services(desired, seen),
        *executions.plan_executions(desired, seen),
    ]


def about(steps: list[Step], touched: set[ResourceId]) -> list[Step]:
    """Return the steps for these resources, with those for what is purged in one of them."""
    return [step for step in steps if step.id in touched or _purges(step, touched)]


def _purges(step: Step, touched: set[ResourceId]) -> bool:
    return isinstance(step, RemovePath) and file_id(step.path.rpartition("/")[0] or "/") in touched


@given(config_sets(), facts(), st.data())
def test_a_focused_plan_is_a_part_of_the_whole_plan(
    sets: list[ConfigSet], seen: Facts, data: st.DataObject
) -> None:
    desired = merge.merge(sets)
    contents = literal_contents(desired)
    groups = (desired.packages, desired.files, desired.services, desired.executions)
    known = sorted(item.id for group in groups for item in group)
    touched = data.draw(st.sets(st.sampled_from(known))) if known else set()
    found = focus.Lens(desired).narrow(touched)
    narrowed = plan(found.desired, contents, seen, found.layout)
    assert about(narrowed, touched) == about(plan(desired, contents, seen), touched)
    assert found.desired.held == desired.held


@pytest.mark.parametrize(
    ("ensure", "told"), [("present", "package db is declared"), ("absent", "correct the name")]
)
def test_a_service_that_its_package_did_not_bring_is_told_of_alike_by_itself(ensure: str, told: str) -> None:
    """Repairing one service must not say another remedy than the pass before: the report would flap."""
    desired = merge.merge(
        [
            config_set(
                "one",
                packages=[{"name": "db", "ensure": ensure}],
                services=[{"name": "db", "ensure": "running"}],
            )
        ]
    )
    lens, one = focus.Lens(desired), ResourceId(resources.SERVICE, "db")
    seen = Facts(services={one: ServiceFact()})
    for part in (desired, lens.narrow([one]).desired, lens.owed({one})):
        (step,) = services.plan_services(part, seen)
        assert isinstance(step, Blocked)
        assert told in step.reason


@given(config_sets(), st.sets(st.sampled_from([file_id(one) for one in PATHS]), min_size=1))
def test_what_a_step_needs_is_in_focus_as_well(sets: list[ConfigSet], touched: set[ResourceId]) -> None:
    desired = merge.merge(sets)
    found = focus.Lens(desired).narrow(touched)
    ids = {item.id for item in found.desired.files}
    for step in files.plan_files(found.desired, literal_contents(desired), Facts(), found.layout):
        assert not isinstance(step, FileStep) or set(step.needs) - set(desired.held) <= ids


def ids_of(found: focus.Focus) -> set[str]:
    return {str(one) for one in found.ids}


@pytest.fixture
def desired() -> Desired:
    return merge.merge(
        [
            config_set(
                "one",
                packages=[{"name": "web"}],
                files=[
                    {"path": "/a", "ensure": "directory", "purge": True},
                    {"path": "/a/b", "content": "", "owner": "www"},
                    {"path": "/ab", "content": ""},
                    {"path": "/etc/systemd/system/web.service.d/x.conf", "content": ""},
                ],
                services=[{"name": "web", "subscribe_files": ["/ab"]}, {"name": "db"}],
            )
        ]
    )


@pytest.mark.parametrize(
    ("touched", "wanted"),
    [
        ("file:/a", {"file:/a", "file:/a/b"}),
        ("file:/a/b", {"file:/a", "file:/a/b"}),
        ("file:/ab", {"file:/ab"}),  # its subscriber is owed something once it is put back, not before
        ("file:/etc/passwd", {"file:/a", "file:/a/b"}),
        ("file:/etc/group", {"file:/a", "file:/a/b"}),
        (
            "file:/etc/systemd/system/web.service.d/x.conf",
            {"file:/etc/systemd/system/web.service.d/x.conf", "service:web"},
        ),
        ("file:/etc/systemd/system/db.service", {"service:db"}),
        ("service:web", {"service:web"}),
        ("package:web", {"package:web"}),
        ("file:/nobody/declares/it", set()),
    ],
)
def test_what_hangs_on_a_resource_is_in_focus(desired: Desired, touched: str, wanted: set[str]) -> None:
    assert ids_of(focus.Lens(desired).narrow([resources.parse_id(touched)])) == wanted


def test_a_directory_is_purged_only_when_it_was_touched_itself(desired: Desired) -> None:
    below = focus.Lens(desired).narrow([file_id("/a/b")]).desired.files
    itself = focus.Lens(desired).narrow([file_id("/a")]).desired.files
    assert [item.declaration.purge for item in below] == [False, False]
    assert [item.declaration.purge for item in itself] == [True, False]


def test_what_has_to_wait_is_not_in_focus_and_still_declared(desired: Desired) -> None:
    found = focus.Lens(desired).narrow([file_id("/a")], frozenset([file_id("/a/b")]))
    assert ids_of(found) == {"file:/a"}
    seen = Facts(files={"/a": FileFact(Kind.DIRECTORY), "/a/b": FileFact(Kind.FILE)}, listings={"/a": ("b",)})
    assert [type(one).__name__ for one in files.plan_files(found.desired, {}, seen, found.layout)] == ["Noop"]


def test_a_fifth_kind_says_which_files_are_about_it() -> None:
    naming: Naming[Note] = Naming(
        name=lambda note: note.name, of_path=lambda path: path.removeprefix("/etc/notes/")
    )
    kinds = kinds_with(replace(NOTES, naming=naming))
    desired = merge.merge([noted_set("a", notes=[{"name": "greeting"}, {"name": "other"}])], kinds)
    found = focus.Lens(desired, kinds).narrow([file_id("/etc/notes/greeting")])
    assert found.ids == {ResourceId(NOTE, "greeting")}
    assert focus.Lens(desired, kinds_with()).narrow([file_id("/etc/notes/greeting")]).ids == frozenset()
