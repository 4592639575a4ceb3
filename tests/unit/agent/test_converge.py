"""A whole pass: stages, what is owed, and what is owed still after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.common.configset import ConfigSet
from nodemanager.host.files import private, writers
from nodemanager.plan.resources import ResourceId
from support.memory_host import Host
from support.root_tree import config_set, failure, needs_root, outcomes

pytestmark = needs_root
Web = Callable[..., ConfigSet]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    found = Host(tmp_path)
    yield found
    found.tree.close()


@pytest.fixture
def web(tmp_path: Path) -> Web:
    def make(content: str = "one", **more: Any) -> ConfigSet:
        path = str(tmp_path / "nginx.conf")
        return config_set(
            "web",
            packages=[{"name": "nginx"}],
            files=[{"path": path, "content": content}],
            services=[{"name": "nginx", "ensure": "running", "subscribe_files": [path], **more}],
            executions=[
                {"command": "sh", "args": ["-c", f"echo ran >> {tmp_path}/ran"], "subscribe_files": [path]}
            ],
        )

    return make


async def test_everything_in_order_and_then_nothing(host: Host, web: Web) -> None:
    assert await host.preview(web()) == [
        "InstallPackage nginx",
        f"WriteFile {host.folder}/nginx.conf",
        "RestartService nginx",
        "RunCommand web/sh",
    ]
    results = outcomes(await host.converge(web()))
    assert set(results.values()) == {"changed"}
    assert (host.packages.calls, host.services.calls) == (["install nginx"], ["restart nginx"])
    assert (host.folder / "ran").read_text() == "ran\n"
    assert await host.preview(web()) == []
    assert set(outcomes(await host.converge(web())).values()) == {"unchanged"}
    assert host.journal.pending() == {}


async def test_where_somebody_writes_it_is_looked_again_whether_they_were_killed(
    host: Host, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing = host.folder / private.temporary_name()
    writing.write_text("half")
    await host.converge(web())
    assert writing.exists()
    monkeypatch.setattr(writers, "in_use", lambda _name, _changed: False)  # it was killed
    await host.converge(web())
    assert not writing.exists()


async def test_a_hold_that_ends_in_a_pass_lets_nothing_begin_before_its_file(host: Host) -> None:
    answers = iter([True, False])  # packages, files; it is over from then on
    host.converger.restraints.may_act = lambda: next(answers, True)
    declared = config_set(
        "web",
        files=[{"path": str(host.folder / "conf"), "content": "one"}],
        services=[{"name": "app", "ensure": "running"}],
        executions=[{"command": "touch", "args": [f"{host.folder}/ran"], "creates": f"{host.folder}/ran"}],
    )
    assert set(outcomes(await host.converge(declared)).values()) == {"held"}
    assert (host.services.calls, (host.folder / "ran").exists()) == ([], False)
    assert set(outcomes(await host.converge(declared)).values()) == {"changed"}


async def test_what_can_be_reloaded_is_and_that_is_what_is_told(host: Host, web: Web) -> None:
    await host.converge(web())
    for content, done in (("two", "reloaded"), ("three", "restarted")):
        results = await host.converge(web(content, reload=True))
        assert [one.done for one in results if str(one.id) == "service:nginx"] == [done]
        host.services.no_reload.add("nginx")


async def test_a_service_of_a_package_that_is_about_to_come_will_start(host: Host) -> None:
    coming = config_set(
        "web", packages=[{"name": "jq"}, {"name": "none"}], services=[{"name": "jqd", "ensure": "running"}]
    )
    assert await host.preview(coming) == ["InstallPackage jq", "Expected jqd"]
    host.packages.have["jq"] = "1.6"
    assert await host.preview(coming) == []


async def test_a_restart_that_failed_is_owed_until_it_succeeds(host: Host, web: Web) -> None:
    host.services.broken = {"nginx"}
    assert outcomes(await host.converge(web()))["service:nginx"] == "failed"
    host.restart()
    assert outcomes(await host.converge(web()))["service:nginx"] == "failed"
    host.services.broken = set()
    host.restart()
    assert outcomes(await host.converge(web()))["service:nginx"] == "changed"
    assert host.services.calls == ["restart nginx"] * 3
    assert outcomes(await host.converge(web()))["service:nginx"] == "unchanged"


async def test_a_restart_waits_for_its_turn(host: Host, web: Web) -> None:
    host.locks.busy = {"web"}
    declared = web(lock_group="web")
    results = await host.converge(declared)
    assert failure(results, "service:nginx") == "cannot take lock web: another host holds it"
    assert host.services.calls == []
    host.locks.busy = set()
    await host.converge(declared)
    assert (host.services.calls, host.locks.held) == (["restart nginx"], ["web"])


async def test_a_restart_under_a_lock_that_was_lost_is_reported_and_not_repeated(
    host: Host, web: Web
) -> None:
    host.locks.lost = {"web"}
    declared = web(lock_group="web")
    assert failure(await host.converge(declared), "service:nginx") == "lock web was lost"
    assert outcomes(await host.converge(declared))["service:nginx"] == "unchanged"
    assert host.services.calls == ["restart nginx"]


async def test_one_unknown_package_does_not_hide_the_others(host: Host) -> None:
    results = await host.converge(
        config_set("a", packages=[{"name": "nginx"}, {"name": "nix"}, {"name": "jq"}])
    )
    assert outcomes(results) == {"package:nginx": "changed", "package:nix": "failed", "package:jq": "changed"}
    assert failure(results, "package:nix") == "cannot install nix: no such package"


async def test_a_failed_execution_runs_again_and_one_that_succeeded_does_not(host: Host) -> None:
    path = str(host.folder / "f")
    command = f"echo x >> {host.folder}/ran; test -e {host.folder}/good"
    declared = config_set(
        "a",
        files=[{"path": path, "content": "c"}],
        executions=[{"command": "sh", "args": ["-c", command], "subscribe_files": [path]}],
    )
    first = await host.converge(declared)
    assert "exit status 1" in next(one.message for one in first if one.id.kind == "exec")
    (host.folder / "good").touch()
    host.restart()
    await host.converge(declared)
    await host.converge(declared)
    assert (host.folder / "ran").read_text() == "x\n" * 2


async def test_arguments_are_never_parsed_by_a_shell(host: Host) -> None:
    target = host.folder / "made $(touch pwned); `x` 'q' \"d\""
    declared = config_set(
        "a", executions=[{"command": "touch", "args": [str(target)], "creates": str(target)}]
    )
    await host.converge(declared)
    assert target.exists()
    assert set(outcomes(await host.converge(declared)).values()) == {"unchanged"}


async def test_an_execution_that_takes_too_long_fails_and_is_killed(host: Host) -> None:
    never = f"{host.folder}/none"
    declared = config_set(
        "a", executions=[{"command": "sleep", "args": ["60"], "creates": never, "timeout": "100ms"}]
    )
    results = await host.converge(declared)
    assert "did not finish within 0.1 s and was killed" in results[0].message


async def test_a_run_that_ended_while_we_were_dead_counts(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent is killed after the program ended and before that was recorded."""

    def killed(resources: Iterable[ResourceId]) -> None:
        if list(resources):
            raise asyncio.CancelledError

    monkeypatch.setattr(host.journal, "settle", killed)
    path = str(host.folder / "f")
    declared = config_set(
        "a",
        files=[{"path": path, "content": "c"}],
        executions=[
            {"command": "sh", "args": ["-c", f"echo x >> {host.folder}/ran"], "subscribe_files": [path]}
        ],
    )
    await host.converge(declared)
    assert (host.folder / "ran").read_text() == "x\n"
    host.restart()
    await host.converge(declared)
    assert (host.folder / "ran").read_text() == "x\n"
    assert host.journal.pending() == {}


async def test_nothing_is_owed_to_what_is_no_longer_declared(host: Host, web: Web) -> None:
    host.services.broken = {"nginx"}
    await host.converge(web())
    assert [str(one) for one in host.journal.pending()] == ["service:nginx"]
    await host.converge(config_set("web", packages=[{"name": "nginx"}]))
    assert host.journal.pending() == {}


async def test_a_service_that_is_started_needs_no_restart(host: Host) -> None:
    path = str(host.folder / "f")
    declared = config_set(
        "a",
        files=[{"path": path, "content": "c"}],
        services=[{"name": "app", "ensure": "running", "enable": True, "subscribe_files": [path]}],
    )
    await host.converge(declared)
    assert host.services.calls == ["enable app", "start app", "refresh"]
    assert host.journal.pending() == {}


async def test_an_aborted_set_starts_nothing(host: Host) -> None:
    path = str(host.folder / "f")
    check = {"command": "/bin/false", "onFailure": "abort"}
    declared = config_set(
        "a", files=[{"path": path, "validate": check}], services=[{"name": "app", "ensure": "running"}]
    )
    results = await host.converge(declared)
    assert "was aborted by a validation that failed" in failure(results, "service:app")
    assert host.services.calls == []


async def test_what_is_below_a_link_that_leads_elsewhere_now_is_looked_at_again(host: Host) -> None:
    old, new, link = host.folder / "old", host.folder / "new", host.folder / "link"
    for folder in (old, new):
        folder.mkdir()
    (old / "x").write_text("x")
    link.symlink_to("old")
    declared = config_set(
        "a",
        files=[
            {"path": str(link), "ensure": "symlink", "target": "new"},
            {"path": f"{link}/x", "content": "x"},
        ],
    )
    assert outcomes(await host.converge(declared)) == {f"file:{link}": "changed", f"file:{link}/x": "changed"}
    assert (new / "x").read_text() == "x"
    assert set(outcomes(await host.converge(declared)).values()) == {"unchanged"}
