"""What a plan expects of the steps above: a service of a package that is about to come is no error."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodemanager.plan import preview
from nodemanager.plan.facts import FileFact
from nodemanager.plan.host_kinds import Brought
from nodemanager.plan.resources import ResourceId, file_id, package_id, parse_id
from nodemanager.plan.steps import Blocked, Expected, InstallPackage, Lack, MakeLink, Step
from support.note_kind import NOTE, NOTES, WriteNote, kinds_with

LACK = Lack("it", "will start", ("/nginx.service", "/init.d/nginx"))


def blocked(name: str = "nginx", lack: Lack | None = LACK) -> Blocked:
    return Blocked(id=parse_id(f"service:{name}"), sources=("a",), reason="cannot find it", lack=lack)


def package(name: str, source: str = "a", *, newer: bool = False) -> InstallPackage:
    return InstallPackage(
        id=package_id(name), sources=(source,), reason="is not installed", name=name, newer=newer
    )


def link(path: str) -> MakeLink:
    return MakeLink(
        id=file_id(path), sources=("a",), reason="is missing", path=path, before=FileFact(), target="x",
        uid=0, gid=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("above", "source"),
    [
        pytest.param([package("nginx"), package("jq")], "package nginx", id="the package of its name"),
        pytest.param([package("jq"), package("web", "b")], "package jq", id="a package of its own set"),
        pytest.param([package("web", "b")], "package web", id="a package of another set"),
        pytest.param([package("a"), package("b")], "one of the packages a, b", id="one of several"),
        pytest.param(
            [package("jq"), link("/etc/systemd/system/nginx.service")],
            "/etc/systemd/system/nginx.service",
            id="its unit file",
        ),
        pytest.param([link("/etc/init.d/nginx")], "/etc/init.d/nginx", id="its script"),
    ],
)
def test_what_may_still_come_is_expected(above: list[Step], source: str) -> None:
    (found,) = preview.expect([blocked()], above)
    assert isinstance(found, Expected)
    assert (found.words.verb, found.sources, found.ACTS) == ("will start", ("a",), True)
    assert found.reason == f"it is not there yet; {source}, above, is expected to bring it"


@pytest.mark.parametrize(
    ("step", "above"),
    [
        pytest.param(blocked(), [], id="nothing comes"),
        pytest.param(blocked(), [link("/etc/default/nginx")], id="a file of its name that is no unit"),
        pytest.param(blocked(), [package("nginx", newer=True)], id="it is only upgraded"),
        pytest.param(blocked(lack=None), [package("nginx")], id="something else is in the way"),
        pytest.param(
            blocked(), [Blocked(id=package_id("nginx"), sources=("a",), reason="no such package")],
            id="its package cannot come",
        ),
    ],
)  # fmt: skip
def test_what_cannot_come_stays_an_error(step: Step, above: list[Step]) -> None:
    assert preview.expect([step], above) == [step]


def test_what_a_kind_brings_is_said_by_the_kind() -> None:
    """A fifth one, too: what it says nothing of is no step that something else may wait for."""
    note = WriteNote(id=ResourceId(NOTE, "nginx"), sources=("a",), reason="is not there", text="x")
    (step,) = preview.expect([blocked()], [note], kinds_with())
    assert isinstance(step, Blocked)
    (step,) = preview.expect(
        [blocked()], [note], kinds_with(replace(NOTES, brings=lambda _step: Brought.MORE))
    )
    assert isinstance(step, Expected)
    assert "note nginx, above, is expected to bring it" in step.reason
