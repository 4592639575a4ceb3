"""What is particular to apt and dpkg, with the real ones in a root of their own."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.host.base import Substituting, ToolFailed, UpgradePlanner, WantedPackage
from support import debian_packages
from support.gates import Gate
from support.package_roots import AptRoot, call

pytestmark = pytest.mark.timeout(600)  # the first one installs what is missing
CONFFILE = "/etc/nm-app.conf"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[AptRoot]:
    debian_packages.ensure(*AptRoot.debian)
    host = AptRoot(tmp_path)
    yield host
    host.close()


async def test_a_conffile_that_was_changed_is_kept_and_the_new_one_is_put_beside(host: AptRoot) -> None:
    host.publish("nm-app", "1.0-1", files={CONFFILE: "first"})
    manager = host.manager()
    await manager.install([WantedPackage("nm-app")])
    (host.root / "etc/nm-app.conf").write_text("the administrator's")
    host.publish("nm-app", "2.0-1", files={CONFFILE: "second"})
    await manager.upgrade_all()
    assert (await manager.installed())["nm-app"] == "2.0-1"
    assert host.content(CONFFILE) == "the administrator's"
    assert host.content(f"{CONFFILE}.dpkg-dist") == "second"


async def test_a_conffile_that_nobody_changed_is_replaced(host: AptRoot) -> None:
    host.publish("nm-app", "1.0-1", files={CONFFILE: "first"})
    manager = host.manager()
    await manager.install([WantedPackage("nm-app")])
    host.publish("nm-app", "2.0-1", files={CONFFILE: "second"})
    await manager.upgrade_all()
    assert host.content(CONFFILE) == "second"


async def test_a_removed_package_leaves_its_configuration_and_does_not_count(host: AptRoot) -> None:
    host.publish("nm-app", "1.0-1", files={CONFFILE: "first"})
    manager = host.manager()
    await manager.install([WantedPackage("nm-app")])
    await manager.remove(["nm-app"])
    assert host.content(CONFFILE) == "first"
    assert "deinstall ok config-files" in host.content("/var/lib/dpkg/status")
    assert "nm-app" not in await manager.installed()


async def test_what_an_interrupted_dpkg_left_is_finished_first(host: AptRoot) -> None:
    """The state of a host that lost power between unpacking and configuring: dpkg's journal is there."""
    host.publish("nm-half", "1.0-1", postinst='echo configured > "$DPKG_ROOT/half"')
    host.publish("nm-app", "1.0-1")
    manager = host.manager()
    await manager.install([WantedPackage("nm-app")])
    unpack = ["dpkg", "--unpack", str(host.repo / "nm-half_1.0-1_all.deb")]
    call(*host.translate(unpack))
    (host.root / "var/lib/dpkg/updates/0001").write_text("")
    assert "nm-half" not in await manager.installed()
    host.publish("nm-other", "1.0-1")
    host.now += 4000
    await manager.install([WantedPackage("nm-other")])
    assert any(command.startswith("dpkg ") for command in host.commands())
    installed = await manager.installed()
    assert (installed["nm-other"], installed["nm-half"]) == ("1.0-1", "1.0-1")
    assert host.content("/half") == "configured\n"


async def test_nothing_is_removed_to_make_room(host: AptRoot) -> None:
    host.publish("nm-old", "1.0-1")
    host.publish("nm-new", "1.0-1", fields="Conflicts: nm-old\n")
    manager = host.manager()
    await manager.install([WantedPackage("nm-old")])
    with pytest.raises(ToolFailed, match="cannot install nm-new: nm-old would have to be removed for it"):
        await manager.install([WantedPackage("nm-new")])
    assert "nm-old" in await manager.installed()


async def test_a_rehearsal_names_what_would_have_to_be_removed(host: AptRoot) -> None:
    """As chrony and systemd-timesyncd of Debian: only one of them can be there."""
    host.publish("nm-old", "1.0-1")
    host.publish("nm-new", "1.0-1", fields="Conflicts: nm-old\n")
    host.publish("nm-app", "1.0-1")
    manager = host.manager()
    await manager.install([WantedPackage("nm-old")])
    both = [WantedPackage("nm-app"), WantedPackage("nm-new")]
    reason = (
        "cannot install nm-new: nm-old would have to be removed for it; declare that absent first, or remove"
        " it yourself"
    )
    assert await manager.rehearse(both, []) == {"nm-new": reason}
    assert await manager.rehearse(both, ["nm-old"]) == {}
    assert set(await manager.installed()) >= {"nm-old"}
    assert "nm-new" not in await manager.installed()


async def test_what_others_need_is_not_replaced_by_something_else_when_it_is_taken_back(
    host: AptRoot,
) -> None:
    """As mail servers of Debian: who needs one of them is content with any."""
    mta = "Provides: nm-mta\nConflicts: nm-mta\n"
    host.publish("nm-postfix", "1.0-1", fields=mta)
    host.publish("nm-exim", "1.0-1", fields=mta)
    host.publish("nm-mailx", "1.0-1", fields="Depends: nm-exim | nm-mta\n")
    host.publish("nm-app", "1.0-1")
    manager = host.manager()
    assert isinstance(manager, Substituting)
    await manager.install([WantedPackage("nm-postfix"), WantedPackage("nm-mailx"), WantedPackage("nm-app")])
    assert await manager.substitutes(["nm-app", "nm-postfix"]) == {
        "nm-postfix": "cannot remove nm-app, nm-postfix: others need it, and nm-exim would have to be"
        " installed instead"
    }
    assert await manager.substitutes(["nm-mailx", "nm-postfix"]) == {}


async def test_without_indexes_a_rehearsal_says_that_it_cannot_tell(
    host: AptRoot, caplog: pytest.LogCaptureFixture
) -> None:
    host.publish("nm-app", "1.0-1")
    assert await host.manager().rehearse([WantedPackage("nm-app")], []) == {}
    assert "cannot tell whether nm-app can be installed: apt has no indexes here yet" in caplog.text


async def test_a_virtual_package_is_no_package(host: AptRoot) -> None:
    """apt would install its only provider, and at the next pass it would again not be installed."""
    host.publish("nm-real", "1.0-1", fields="Provides: nm-virtual\n")
    with pytest.raises(ToolFailed, match="cannot install nm-virtual: no such package"):
        await host.manager().install([WantedPackage("nm-virtual")])


async def test_indexes_are_refreshed_when_the_mirror_has_moved_on(host: AptRoot) -> None:
    host.publish("nm-app", "1.0-1")
    manager = host.manager()
    await manager.candidates(["nm-app"])
    host.withdraw("nm-app", "1.0-1")
    host.publish("nm-app", "1.0-2")
    await manager.install([WantedPackage("nm-app")])
    assert (await manager.installed())["nm-app"] == "1.0-2"


async def test_indexes_are_refreshed_when_needed_and_not_too_often(host: AptRoot) -> None:
    host.publish("nm-app", "1.0-1")
    manager = host.manager()
    await manager.install([WantedPackage("nm-app")])
    for _ in range(3):
        await manager.candidates(["nm-app"])
        with pytest.raises(ToolFailed):
            await manager.install([WantedPackage("nm-nosuch")])
    assert len([line for line in host.commands() if line.endswith(" update")]) == 1
    host.now += 601
    with pytest.raises(ToolFailed):
        await manager.install([WantedPackage("nm-nosuch")])
    assert len([line for line in host.commands() if line.endswith(" update")]) == 2


async def test_without_a_network_the_old_indexes_are_good_enough(host: AptRoot) -> None:
    host.publish("nm-app", "1.0-1")
    manager = host.manager()
    await manager.install([WantedPackage("nm-app")])
    host.repo.rename(host.repo.with_name("gone"))
    os.utime(host.root / "var/lib/apt/lists/partial", (0, 0))
    host.now += 4000
    assert await manager.candidates(["nm-app"]) == {"nm-app": "1.0-1"}


async def test_a_failing_maintainer_script_is_reported_with_its_last_words(host: AptRoot) -> None:
    host.publish("nm-bad", "1.0-1", postinst="echo no database here >&2; exit 4")
    with pytest.raises(
        ToolFailed, match=r"(?s)cannot install nm-bad: the package manager .*error exit status 4"
    ):
        await host.manager().install([WantedPackage("nm-bad")])
    assert "nm-bad" not in await host.manager().installed()


async def test_a_cancelled_pass_leaves_a_whole_host_behind(host: AptRoot) -> None:
    """The agent is stopped while a package is being configured: dpkg goes on to its end."""
    begun = host.work / "begun"
    with Gate(host.work) as gate:
        host.publish("nm-slow", "1.0-1", postinst=f"touch {begun}; {gate.wait}; seq 1 50000")
        manager = host.manager()
        task = asyncio.create_task(manager.install([WantedPackage("nm-slow")]))
        async with asyncio.timeout(60):
            while not begun.exists():  # noqa: ASYNC110 - a foreign process sets no event
                await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.open()
        async with asyncio.timeout(60):
            while "nm-slow" not in await manager.installed():  # noqa: ASYNC110 - see above
                await asyncio.sleep(0.02)


def security_repository(host: AptRoot, folder: Path, name: str, version: str) -> None:
    """Offer a package in a repository of its own that says, as Debian's does, what it is for."""
    host.publish(name, version)
    folder.mkdir()
    file = f"{name}_{version}_all.deb"
    (host.repo / file).rename(folder / file)
    host.index()
    index = call("dpkg-scanpackages", "--multiversion", ".", cwd=folder)
    (folder / "Packages").write_text(index)
    digest = hashlib.sha256(index.encode()).hexdigest()
    (folder / "Release").write_text(
        "Origin: Debian\nLabel: Debian-Security\nSuite: stable-security\nCodename: bookworm-security\n"
        f"Version: 12\nSHA256:\n {digest} {len(index.encode())} Packages\n"
    )
    with (host.root / "etc/apt/sources.list").open("a") as sources:
        sources.write(f"deb [trusted=yes] file:{folder} ./\n")


async def test_upgrades_are_told_beforehand_with_what_is_about_security(
    host: AptRoot, tmp_path: Path
) -> None:
    for name in ("nm-app", "nm-lib", "nm-held", "nm-pinned"):
        host.publish(name, "1.0-1")
    manager = host.manager()
    await manager.install([WantedPackage(name) for name in ("nm-app", "nm-lib", "nm-held", "nm-pinned")])
    for name in ("nm-app", "nm-held", "nm-pinned"):
        host.publish(name, "2.0-1")
    security_repository(host, tmp_path / "security", "nm-lib", "1.0-2")
    status = host.root / "var/lib/dpkg/status"
    text = status.read_text().replace(
        "Package: nm-held\nStatus: install ok", "Package: nm-held\nStatus: hold ok"
    )
    status.write_text(text)
    assert isinstance(manager, UpgradePlanner)
    hold = [WantedPackage("nm-pinned", "1.0-1")]
    every = {"nm-app": ("1.0-1", "2.0-1"), "nm-lib": ("1.0-1", "1.0-2")}
    assert await manager.upgrades(hold, security=False) == every
    assert await manager.upgrades(hold, security=True) == {"nm-lib": ("1.0-1", "1.0-2")}
    assert (await manager.installed())["nm-lib"] == "1.0-1"
