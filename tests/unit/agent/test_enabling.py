"""What starts at boot: the service manager reads its files again as rarely as possible, and nobody waits."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from nodemanager.api.common.configset import ConfigSet
from nodemanager.host.base import ServiceKey, ToolFailed
from nodemanager.host.results import ResourceOutcome
from nodemanager.plan.resources import SERVICE, ResourceId, file_id
from support.memory_host import DOWN, UP, Host
from support.realtime import Hints, Kept
from support.root_tree import config_set, needs_root
from support.scripted_server import until

pytestmark = needs_root
NAMES = ("app", "db", "web")


def wanted(folder: Path) -> ConfigSet:
    return config_set(
        "boot",
        files=[{"path": f"{folder}/motd", "content": "hello\n"}],
        services=[{"name": name, "ensure": "running", "enable": True} for name in NAMES],
    )


def service_id(name: str) -> ResourceId:
    return ResourceId(SERVICE, name)


def disable(host: Host) -> None:
    """Have none of the services start at boot any more; they run on."""
    for name in NAMES:
        host.services.facts[ServiceKey(name)] = replace(UP, enabled=False)


async def broken() -> None:
    raise ToolFailed("cannot reload the unit files: no")


async def test_a_pass_has_files_read_again_once_for_all_that_it_enabled(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.services.facts.update({ServiceKey(name): DOWN for name in NAMES})
    results = await host.converge(wanted(tmp_path))
    assert {one.outcome for one in results} == {ResourceOutcome.CHANGED}
    assert host.services.calls.count("refresh") == 1
    assert host.services.calls[-1] == "refresh"
    host.services.calls.clear()
    await host.converge(wanted(tmp_path))
    assert host.services.calls == []


async def test_a_pass_tells_of_which_services_the_manager_could_not_learn(tmp_path: Path) -> None:
    host = Host(tmp_path)
    await host.converge(wanted(tmp_path))
    disable(host)
    host.services.facts[ServiceKey("db")] = UP
    host.services.refresh = lambda user="": broken()  # type: ignore[method-assign]
    results = {one.id: one for one in await host.converge(wanted(tmp_path))}
    for name, outcome in {
        "app": ResourceOutcome.FAILED,
        "db": ResourceOutcome.UNCHANGED,
        "web": ResourceOutcome.FAILED,
    }.items():
        assert results[service_id(name)].outcome is outcome
    assert results[service_id("web")].message == "cannot reload the unit files: no"


async def test_the_manager_learns_what_starts_at_boot_also_if_it_does_not_start_now(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.services.facts.update({ServiceKey(name): DOWN for name in NAMES})
    host.services.broken.update(NAMES)
    results = {one.id: one for one in await host.converge(wanted(tmp_path))}
    assert host.services.calls[-1] == "refresh"
    host.services.refresh = lambda user="": broken()  # type: ignore[method-assign]
    disable(host)
    results = {one.id: one for one in await host.converge(wanted(tmp_path))}
    assert results[service_id("web")].message == "cannot reload the unit files: no"
    for name in NAMES:
        host.services.facts[ServiceKey(name)] = DOWN
    results = {one.id: one for one in await host.converge(wanted(tmp_path))}
    assert results[service_id("web")].message == "cannot start web: it failed"  # which says more


async def test_that_all_units_are_stale_because_of_us_is_no_drift(tmp_path: Path) -> None:
    """From 255 on, systemd says so of every unit after one was enabled, until it has read them again."""
    hints = Hints()
    async with Kept(tmp_path, hints) as kept:
        services = kept.host.services
        services.facts.update({ServiceKey(name): UP for name in NAMES})
        await kept.converge(wanted(tmp_path))
        enable = services.enable

        async def enable_and_spoil(key: ServiceKey, *, enabled: bool) -> bool:
            await enable(key, enabled=enabled)
            services.facts = {one: replace(fact, stale=True) for one, fact in services.facts.items()}
            return True

        services.enable = enable_and_spoil  # type: ignore[method-assign]
        services.facts[ServiceKey("app")] = replace(UP, enabled=False)
        hints.tell(service_id("app"))
        await kept.until(lambda: kept.told)
        assert services.facts[ServiceKey("db")].stale
        hints.tell(service_id("db"), service_id("web"))
        await kept.converge(wanted(tmp_path))
        await until(lambda: services.calls.count("refresh") > 0)
        assert [record.resource for record in kept.drifts.records] == ["service:app"]


async def test_no_repair_waits_for_files_to_be_read_again(tmp_path: Path) -> None:
    hints, slow = Hints(), asyncio.Event()
    began: list[str] = []

    async def refresh(user: str = "") -> None:
        began.append(user)
        await slow.wait()

    async with Kept(tmp_path, hints) as kept:
        kept.host.services.facts.update({ServiceKey(name): UP for name in NAMES})
        await kept.converge(wanted(tmp_path))
        kept.host.services.refresh = refresh  # type: ignore[method-assign]
        disable(kept.host)
        hints.tell(*map(service_id, NAMES))
        await kept.until(lambda: len(kept.told) == len(NAMES))
        assert all(kept.host.services.facts[ServiceKey(name)].enabled for name in NAMES)
        (tmp_path / "motd").unlink()
        hints.tell(file_id(f"{tmp_path}/motd"))
        await kept.until((tmp_path / "motd").exists)
        await until(lambda: began == [""])  # once, for all of them, and it is still at it
        disable(kept.host)
        hints.tell(service_id("app"))
        await kept.until(lambda: len(kept.told) == len(NAMES) + 2)
        assert began == [""]
        slow.set()
        await until(lambda: began == ["", ""])  # what came after it had begun may have come too late


async def test_a_repair_goes_on_where_files_cannot_be_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hints = Hints()
    async with Kept(tmp_path, hints) as kept:
        kept.host.services.facts.update({ServiceKey(name): UP for name in NAMES})
        await kept.converge(wanted(tmp_path))
        kept.host.services.refresh = lambda user="": broken()  # type: ignore[method-assign]
        with caplog.at_level(logging.WARNING):
            for count in (1, 2):
                disable(kept.host)
                hints.tell(service_id("app"))
                await kept.until(lambda wanted=count: len(kept.told) == wanted)  # type: ignore[misc]
            await until(lambda: "cannot reload the unit files: no" in caplog.text)
