"""What somebody else did to something of ours, or beside it, is not ours: it is never taken back."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodemanager.agent.declared import known_sets
from nodemanager.host.base import ServiceKey
from support.memory_host import DOWN, UP
from support.owning_host import NODE, OwningHost, pruning_set
from support.root_tree import needs_root

pytestmark = needs_root
BASE = pruning_set("base")
HTOP: dict[str, Any] = {
    "packages": [{"name": "htop"}],
    "services": [{"name": "htopd", "ensure": "running", "enable": True}],
}


@pytest.fixture
def host(tmp_path: Path) -> OwningHost:
    return OwningHost(tmp_path)


def declared(host: OwningHost, name: str, **more: Any) -> dict[str, Any]:
    return {"path": str(host.path(name)), "content": "ours", **more}


async def moved_and_given_up(host: OwningHost, file: dict[str, Any]) -> None:
    """Have another set declare a file, and then nobody."""
    await host.has(pruning_set("a"), pruning_set("b", files=[file]), BASE)
    await host.has(pruning_set("a"), pruning_set("b"), BASE)


@pytest.mark.parametrize("instead", ["link", "content", "directory"])
async def test_what_somebody_made_of_a_file_that_is_created_only_is_theirs(
    host: OwningHost, instead: str
) -> None:
    file, path = declared(host, "x", createOnly=True), host.path("x")
    await host.has(pruning_set("a", files=[file]), BASE)
    path.unlink()
    if instead == "link":
        path.symlink_to("/srv/theirs")
    elif instead == "content":
        path.write_text("theirs")
    else:
        path.mkdir()
    await moved_and_given_up(host, file)
    assert path.is_symlink() or path.exists()
    assert host.left == {f"file:{path}": "it was changed since by somebody else"}


async def test_a_file_that_is_created_only_and_moves_to_another_set_is_still_ours(host: OwningHost) -> None:
    file = declared(host, "x", createOnly=True)
    await host.has(pruning_set("a", files=[file]), BASE)
    await moved_and_given_up(host, file)
    assert (host.path("x").exists(), host.left) == (False, {})


async def test_a_mode_that_nobody_declares_and_somebody_changed_is_theirs(host: OwningHost) -> None:
    folder = {"path": str(host.path("d")), "ensure": "directory", "owner": "5"}
    host.path("d").mkdir(mode=0o755)
    await host.has(pruning_set("a", files=[folder]), BASE)
    host.path("d").chmod(0o770)
    await moved_and_given_up(host, folder)
    assert host.path("d").stat().st_mode & 0o777 == 0o770
    said = "its owner or mode was changed since by somebody else"
    assert host.left == {f"file:{host.path('d')}": said}


async def test_what_moves_to_a_set_in_stages_stays_until_this_host_has_its_turn(host: OwningHost) -> None:
    chosen: dict[str, Any] = {"nodeSelector": {}}
    old = pruning_set("b", **chosen)
    new = pruning_set("b", **chosen, rollout={"strategy": "Staged"}, files=[declared(host, "x")])
    await host.has(pruning_set("a", files=[declared(host, "x")]), old)
    given_up = pruning_set("a", **chosen)
    told = known_sets.told([given_up, new], [given_up, old], NODE)
    assert await host.has(given_up, old, told=told) == {}
    said = "waits: ConfigSet b declares it, in a revision that this host does not have yet"
    assert (host.path("x").read_text(), host.left) == ("ours", {f"file:{host.path('x')}": said})
    await host.has(given_up, new)
    assert (host.path("x").read_text(), host.left) == ("ours", {})
    undone = known_sets.told([given_up, new], [given_up, old], NODE)
    await host.has(given_up, old, told=undone)  # its own revision is not one that is to come
    assert not host.path("x").exists()


async def test_what_moves_to_a_set_in_stages_under_another_name_stays_too(host: OwningHost) -> None:
    host.path("usr").mkdir()
    host.path("lib").symlink_to("usr")
    host.services.facts |= {ServiceKey(name): replace(DOWN, unit="ssh.service") for name in ("ssh", "sshd")}
    chosen: dict[str, Any] = {"nodeSelector": {}}

    def having(path: str, service: str) -> dict[str, Any]:
        return {
            "files": [declared(host, path)],
            "services": [{"name": service, "ensure": "running", "enable": True}],
        }

    old = pruning_set("b", **chosen)
    new = pruning_set("b", **chosen, rollout={"strategy": "Staged"}, **having("usr/x", "ssh"))
    await host.has(pruning_set("a", **having("lib/x", "sshd")), old)
    host.services.facts |= {ServiceKey(name): replace(UP, unit="ssh.service") for name in ("ssh", "sshd")}
    host.services.calls.clear()
    given_up = pruning_set("a", **chosen)
    told = known_sets.told([given_up, new], [given_up, old], NODE)
    assert await host.has(given_up, old, told=told) == {}
    assert (host.path("usr/x").read_text(), host.services.calls) == ("ours", [])
    assert host.left["service:sshd"] == (
        "waits: ConfigSet b declares service:ssh, which it is or leads to, in a revision that this host does"
        " not have yet"
    )
    await host.has(given_up, new)
    assert (host.path("usr/x").read_text(), host.services.calls, host.left) == ("ours", [], {})
    await host.has(given_up, old, told=told)  # its own revision is not one that is to come
    assert not host.path("usr/x").exists()
    assert host.services.calls == ["disable ssh", "stop ssh", "refresh"]


async def test_a_service_that_somebody_brought_after_we_could_not_is_theirs(host: OwningHost) -> None:
    wanted = pruning_set(**HTOP)
    assert {one for one, done in (await host.has(wanted, BASE)).items() if done.failed} == {
        "package:htop", "service:htopd",
    }  # fmt: skip
    host.packages.have["htop"] = "3"  # by hand; its unit is enabled and started by that
    host.services.facts[ServiceKey("htopd")] = UP
    await host.has(wanted, BASE)
    host.services.calls.clear()
    await host.has(pruning_set(), BASE)
    assert (host.services.calls, host.packages.have["htop"]) == ([], "3")
    assert set(host.left) == {"package:htop", "service:htopd"}


async def test_a_service_that_somebody_brought_is_put_back_to_how_they_left_it(host: OwningHost) -> None:
    wanted = pruning_set(**HTOP)
    await host.has(wanted, BASE)
    host.packages.have["htop"] = "3"  # by hand; its unit is enabled, and not started by that
    host.services.facts[ServiceKey("htopd")] = replace(DOWN, enabled=True)
    await host.has(wanted, BASE)
    assert host.services.calls[-1] == "start htopd"
    host.services.calls.clear()
    await host.has(pruning_set(), BASE)
    assert host.services.calls == []
    assert host.left["service:htopd"] == "it starts at boot, which is not our doing, so it goes on running"


@pytest.mark.parametrize("declared_enabled", [False, True])
async def test_a_service_that_starts_at_boot_anyway_is_not_stopped(
    host: OwningHost, declared_enabled: bool
) -> None:
    # It had crashed, or the host was booting, when the set was first seen.
    host.services.facts[ServiceKey("sshd")] = replace(DOWN, enabled=True)
    more = {"enable": True} if declared_enabled else {}
    await host.has(pruning_set(services=[{"name": "sshd", "ensure": "running", **more}]), BASE)
    assert host.services.calls == ["start sshd"]
    await host.has(pruning_set(), BASE)
    assert host.services.calls == ["start sshd"]
    assert host.left == {"service:sshd": "it starts at boot, which is not our doing, so it goes on running"}


async def test_a_service_that_others_start_is_not_stopped(host: OwningHost) -> None:
    # Without [Install], or made from /etc/fstab: it was yet to start when the set was first seen.
    host.services.facts[ServiceKey("srv.mount")] = replace(DOWN, enabled=None)
    await host.has(pruning_set(services=[{"name": "srv.mount", "ensure": "running"}]), BASE)
    assert host.services.calls == ["start srv.mount"]
    await host.has(pruning_set(), BASE)
    assert host.services.calls == ["start srv.mount"]
    said = "others may start it (it can be neither enabled nor disabled), so it goes on running"
    assert host.left == {"service:srv.mount": said}


async def test_a_service_that_came_with_our_unit_file_is_stopped(
    host: OwningHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    see, unit = host.services.observe, host.path("ours.service")

    async def observe(keys: Iterable[ServiceKey]) -> Any:
        if unit.exists():
            host.services.facts.setdefault(ServiceKey("ours"), replace(DOWN, enabled=None))
        return await see(keys)

    monkeypatch.setattr(host.services, "observe", observe)
    services = [{"name": "ours", "ensure": "running"}]
    await host.has(pruning_set(files=[declared(host, "ours.service")], services=services), BASE)
    assert host.services.calls == ["start ours"]
    await host.has(pruning_set(), BASE)
    assert host.services.calls == ["start ours", "stop ours"]
    assert (unit.exists(), host.left) == (False, {})


async def test_a_service_that_came_with_our_package_is_stopped_although_it_starts_at_boot(
    host: OwningHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    install = host.packages.install

    async def installed(wanted: Any) -> None:
        await install(wanted)
        host.services.facts[ServiceKey("jqd")] = UP

    monkeypatch.setattr(host.packages, "install", installed)
    services = [{"name": "jqd", "ensure": "running"}]
    await host.has(pruning_set(packages=[{"name": "jq"}], services=services), BASE)
    host.services.calls.clear()
    await host.has(pruning_set(), BASE)
    assert host.services.calls == ["stop jqd"]


async def test_a_service_that_our_package_brings_at_the_second_try_is_ours(
    host: OwningHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, install = pruning_set(**HTOP), host.packages.install
    await host.has(wanted, BASE)

    async def installed(wanted: Any) -> None:
        await install(wanted)
        host.services.facts[ServiceKey("htopd")] = UP

    monkeypatch.setattr(host.packages, "install", installed)
    host.packages.offered["htop"] = "3"
    await host.has(wanted, BASE)
    host.services.calls.clear()
    await host.has(pruning_set(), BASE)
    assert host.services.calls == ["disable htopd", "stop htopd", "refresh"]


async def test_a_link_that_a_link_of_somebody_else_needs_to_reach_something_declared_stays(
    host: OwningHost,
) -> None:
    host.path("real").mkdir()
    host.path("theirs").symlink_to("ours")
    link = {"path": str(host.path("ours")), "ensure": "symlink", "target": "real"}
    keep = pruning_set("keep", files=[declared(host, "theirs/x")])
    await host.has(pruning_set(files=[link]), BASE)
    await host.has(pruning_set(files=[link]), keep, BASE)
    await host.has(pruning_set(), keep, BASE)
    assert host.path("theirs/x").read_text() == "ours"
    said = f"it is the same as file:{host.path('theirs/x')}, or leads to it, which is declared"
    assert host.left == {f"file:{host.path('ours')}": said}


async def test_a_directory_keeps_its_mode_while_something_is_declared_in_it_by_another_path(
    host: OwningHost,
) -> None:
    host.path("real").mkdir(mode=0o755)
    host.path("link").symlink_to("real")
    folder = {"path": str(host.path("real")), "ensure": "directory", "mode": "0700"}
    keep = pruning_set("keep", files=[declared(host, "link/x")])
    await host.has(pruning_set(files=[folder]), keep, BASE)
    await host.has(pruning_set(), keep, BASE)
    assert host.path("real").stat().st_mode & 0o777 == 0o700


async def test_a_directory_with_something_that_stays_for_another_name_does_not_fail_to_go(
    host: OwningHost,
) -> None:
    folder = {"path": str(host.path("d")), "ensure": "directory"}
    await host.has(pruning_set(files=[folder, declared(host, "d/x"), declared(host, "y")]), BASE)
    host.path("y").unlink()
    os.link(host.path("d/x"), host.path("y"))
    assert await host.has(pruning_set(files=[declared(host, "y")]), BASE) == {}
    assert host.left[f"file:{host.path('d')}"] == "the directory is not empty: it has x"
