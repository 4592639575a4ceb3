"""Names of an author who means harm, given to the real apt, dnf and pacman: each in a root of its own.

What is refused runs nothing; what is not is looked up as a name, and installs or removes that or nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.host.base import HostError, WantedPackage
from nodemanager.host.packages import common
from nodemanager.host.process.runner import RunError
from support import debian_packages, scripts
from support.evil_author import MARK, SEED, Author
from support.package_roots import AptRoot, PackageRoot, PacmanRoot, RpmRoot, call

CASES = int(os.environ.get("NODEMANAGER_AUTHOR_CASES", "2000")) // 100
"""Names for each program that runs; it takes a good part of a second."""
MAX_MESSAGE = 8192
pytestmark = pytest.mark.timeout(600 + CASES * 10)
ROOTS: dict[str, type[PackageRoot]] = {"apt": AptRoot, "pacman": PacmanRoot, "dnf": RpmRoot}
KNOWN = {"nm-lib", "nm-app", "g++"}
ODD = (
    "nm-lib+", "nm-app+", "nm-li.", "nm-...", "nm-lib:all", "nm-lib:any", "nm-lib:native", "nm-lib-1.0-1",
    "nm-lib-1.0", "nm-lib.noarch", "nm-lib.", "lib+", "nm-lib:amd64", "nm-lib@1", "nm_lib", "NM-LIB",
    "test:nm-lib",
)  # fmt: skip
"""Names that pass, and that some package manager takes for more than a name."""


@pytest.fixture(params=ROOTS)
def host(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PackageRoot]:
    kind = ROOTS[request.param]
    debian_packages.ensure(*kind.debian)
    trap = tmp_path / "trap"
    trap.mkdir()
    monkeypatch.chdir(trap)  # where an address or an option would find what they put there
    for name in ("nm-lib", "evil.deb", "evil.rpm", "a", "apt.conf", "pwn"):
        scripts.write(trap / name, f"touch {tmp_path}/{MARK}")
    host = kind(tmp_path)
    if isinstance(host, AptRoot):  # whose architecture is the host's
        own = call("dpkg", "--print-architecture")
        stanza = f"Package: dpkg\nStatus: install ok installed\nVersion: 1\nArchitecture: {own}"
        (host.root / "var/lib/dpkg/status").write_text(f"{stanza}Maintainer: x\nDescription: x\n\n")
    host.publish("nm-lib", "1.0-1")
    host.publish("nm-app", "1.0-1", needs="nm-lib")
    host.publish("g++", "1.0-1")
    host.synchronize()
    yield host
    host.close()


def names(count: int) -> Iterator[str]:
    """Yield names that pass, the odd ones first, and each once."""
    author, seen = Author(SEED), set(KNOWN)
    for name in [*ODD, *(author.name() for _ in range(count * 40))]:
        try:
            common.check_names([name])
        except HostError:
            continue
        if name not in seen and len(seen) < count + len(KNOWN) + len(ODD):
            seen.add(name)
            yield name


async def attempt(doing: object) -> bool:
    """Await it, and tell whether it went through; only our own errors may come of it, of a page at most."""
    try:
        await doing  # type: ignore[misc]
    except (HostError, RunError) as error:
        return len(str(error)) >= MAX_MESSAGE
    return True


async def test_what_is_refused_runs_nothing(host: PackageRoot) -> None:
    author, manager, refused = Author(SEED), host.manager(), 0
    before = await manager.installed()
    host.ran.clear()
    for _ in range(CASES * 20):
        name = author.name()
        try:
            common.check_names([name])
        except HostError:
            refused += 1
            assert not await attempt(manager.candidates([name]))
            assert not await attempt(manager.install([WantedPackage(name)]))
            assert not await attempt(manager.remove([name]))
            assert not await attempt(manager.install([WantedPackage("nm-lib", name)])) or not name
    assert refused > CASES
    assert [argv for argv in host.ran if "install" in argv or "-S" in argv or "remove" in argv] == []
    assert await manager.installed() == before


async def test_what_passes_is_looked_up_as_a_name_and_nothing_else_comes_or_goes(
    host: PackageRoot, tmp_path: Path
) -> None:
    manager = host.manager()
    await manager.install([WantedPackage("nm-lib")])
    before = dict(await manager.installed())
    here = {path.name for path in (tmp_path / "trap").iterdir()}
    for name in names(CASES):
        offered = await manager.candidates([name])
        assert set(offered) <= {name}, (name, offered)
        came = await attempt(manager.install([WantedPackage(name)]))
        after = await manager.installed()
        assert not came or name in after, (name, after)
        assert {one: after[one] for one in before} == before, f"{name} changed something else"
        assert set(after) - set(before) == set() or name in before or name in offered, (name, after)
        if name not in after:
            assert await attempt(manager.remove([name])), "what is not there is absent already"
            assert await manager.installed() == after, f"removing {name} changed something"
        assert not (tmp_path / MARK).exists(), name
        assert {path.name for path in (tmp_path / "trap").iterdir()} == here, name


async def test_a_name_that_ends_like_a_wish_is_still_a_name(host: PackageRoot) -> None:
    """`g++` is a package; to apt, `nm-lib+` is the wish to install nm-lib, and `nm-lib-` to remove it."""
    manager = host.manager()
    before = await manager.installed()
    await manager.install([WantedPackage("g++")])
    assert set(await manager.installed()) >= {"g++"}
    await manager.remove(["g++"])
    assert await manager.installed() == before
    await manager.remove(["nm-lib+"])
    assert await manager.installed() == before, "nothing is installed by removing"
    with pytest.raises(HostError, match="not the name of a package"):
        await manager.remove(["nm-lib-"])
