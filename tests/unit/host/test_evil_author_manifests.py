"""An author who means harm, against all that reads what authors write; a few cases, or as many as asked.

NODEMANAGER_AUTHOR_CASES=100000 NODEMANAGER_AUTHOR_SEED=1 make test ARGS="-s -n 2 -k evil_author"
"""

from __future__ import annotations

import asyncio
import re
import resource
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api import manifest_checks
from nodemanager.api import schedules as schedule
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.host.base import HostError, ServiceKey, WantedPackage
from nodemanager.host.files.tree import Tree
from nodemanager.host.packages import common
from nodemanager.host.packages.apk import Apk
from nodemanager.host.packages.apt import Apt
from nodemanager.host.packages.common import PackageContext
from nodemanager.host.packages.dnf import Dnf
from nodemanager.host.packages.pacman import Pacman
from nodemanager.host.packages.pkgng import Pkgng
from nodemanager.host.process.runner import Completed, RunError
from nodemanager.host.services import systemctl
from nodemanager.host.services.openrc import OpenRC
from nodemanager.host.services.rcd import RcD
from nodemanager.kube import hints, manifests, selectors
from nodemanager.kube.cel import program
from nodemanager.kube.cel.errors import CelError, CompileError
from nodemanager.kube.cel.lib import quantity, semver
from nodemanager.kube.go import durations
from nodemanager.kube.go.regex_syntax import RegexError
from nodemanager.kube.manifests import ManifestError
from nodemanager.kube.schemas.patterns import compile_pattern
from support.evil_author import CASES, SEED, Author

pytestmark = pytest.mark.timeout(7200 if CASES > 10_000 else 120)
MAX_SECONDS = 1.0
"""Of processor time for one case: other tests run beside this one."""
MAX_BYTES = 64 * 1024 * 1024
MAX_MESSAGE = 8192
MEASURED = 20
"""Every so many cases, memory is measured, which is slow."""
SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+:@-]*")
SAFE_UNIT = re.compile(r"[A-Za-z0-9_.@:\\-]+")


class Recorder:
    """A runner that starts nothing, and remembers what it should have."""

    def __init__(self, said: bytes = b"") -> None:
        self.ran: list[tuple[str, ...]] = []
        self.said = said

    async def __call__(self, argv: Sequence[str], **_: Any) -> Completed:
        self.ran.append(tuple(argv))
        return Completed(tuple(argv), 0, self.said, b"")


def bounded(error: Exception, about: str = "") -> None:
    """Check that a refusal can be read: not longer than a page, and about something."""
    said = str(error)
    assert about in said
    assert 10 < len(said) <= MAX_MESSAGE, (len(said), said[:200])


def each(grammar: str, share: float, judge: Callable[[Author], None]) -> None:
    """Judge so many cases of a grammar, each within its bounds."""
    author, count = Author(SEED ^ zlib.crc32(grammar.encode())), max(50, int(CASES * share))
    slowest, largest = 0.0, 0
    for number in range(count):
        state = author.random.getstate()
        if measured := number % MEASURED == 0:
            tracemalloc.start()
        began = time.process_time()
        try:
            judge(author)
        except BaseException as error:
            author.random.setstate(state)
            error.add_note(f"{grammar}, case {number} of seed {SEED}")
            raise
        finally:
            took = time.process_time() - began
            if measured:
                largest = max(largest, tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()
        slowest = max(slowest, 0.0 if measured else took)
        assert slowest <= MAX_SECONDS, f"{grammar}, case {number} of seed {SEED} took {took:.2f} s"
        assert largest <= MAX_BYTES, f"{grammar}, case {number} of seed {SEED} took {largest} bytes"
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    told = f"slowest {slowest * 1000:.1f} ms, largest {largest / 2**20:.1f} MiB, RSS {rss} MiB"
    sys.stdout.write(f"{grammar}: {count} cases, {told}\n")


TEXTS: dict[str, tuple[Callable[[Author], str], Callable[[str], object], tuple[type[Exception], ...]]] = {
    "schedule": (Author.schedule, schedule.parse, (schedule.ScheduleError,)),
    "selector": (Author.selector, selectors.parse_selector, (ValueError,)),
    "duration": (Author.duration, durations.parse, (ValueError,)),
    "quantity": (Author.number, quantity.parse, (CelError,)),
    "semver": (Author.number, semver.parse, (CelError,)),
    "expression": (Author.expression, lambda text: program.compile_expression(text, {}), (CompileError,)),
    "pattern": (Author.pattern, compile_pattern, (RegexError,)),
}


@pytest.mark.parametrize("grammar", TEXTS)
def test_every_text_is_understood_or_refused(grammar: str) -> None:
    write, read, refusals = TEXTS[grammar]

    def judge(author: Author) -> None:
        text = write(author)
        try:
            read(text)
        except refusals as error:
            bounded(error)

    each(grammar, 0.06, judge)


def test_a_schedule_that_is_understood_has_a_next_time_or_none_and_soon_says_so() -> None:
    from datetime import UTC, datetime

    def judge(author: Author) -> None:
        try:
            found = schedule.parse(author.schedule())
        except schedule.ScheduleError:
            return
        slot = found.first(datetime(2026, 11, 1, tzinfo=UTC), UTC)
        assert slot is None or slot.year < 2100

    each("next time", 0.06, judge)


@pytest.fixture(name="tools")
def _tools(tmp_path: Path) -> Any:
    tree = Tree(str(tmp_path))
    yield Tools(tree)
    tree.close()


class Tools:
    """Every package and service manager, of which none runs anything."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    async def package(self, name: str, version: str) -> list[tuple[str, ...]]:
        """Do everything that can be done with a package, and return what would have been run."""
        run = Recorder()
        context = PackageContext(self.tree, run, lock_seconds=0)

        async def installed() -> dict[str, str]:
            return {name: version or "1"}

        for kind in (Apt, Dnf, Pacman, Apk, Pkgng):
            manager = kind(context)
            manager.installed = installed  # type: ignore[method-assign]
            wanted = [WantedPackage(name, version)]
            for doing in (
                manager.candidates([name]), manager.install(wanted), manager.remove([name]),
                manager.upgrade_all(wanted),
            ):  # fmt: skip
                try:
                    await doing
                except (HostError, RunError) as error:
                    bounded(error)
        return run.ran

    async def service(self, name: str) -> list[tuple[str, ...]]:
        """Do everything that can be done with a service, and return what would have been run."""
        run = Recorder(f"{name}\n".encode("utf-8", "replace"))
        key = ServiceKey(name)
        for manager in (systemctl.OfflineSystemd(run), OpenRC(run, 0.0), RcD(run, 0.0)):
            await manager.observe([key])
            for doing in (
                manager.enable(key, enabled=True), manager.enable(key, enabled=False), manager.start(key),
                manager.stop(key), manager.restart(key), manager.reload(key),
            ):  # fmt: skip
                try:
                    await doing
                except (HostError, RunError) as error:
                    bounded(error)
        return run.ran


def only_a_name(argv: Sequence[str], name: str, version: str) -> None:
    """Check that a name stands where only names stand, and is nothing else to anybody."""
    whole = {name, f"{name}={version}", f"{name}-{version}", f"--exclude={name}", f"{name}=1", f"{name}-1"}
    base, dot, arch = name.rpartition(".")  # dnf has the architecture at the end
    whole |= {f"{base}-{version}.{arch}"} if dot else set()
    for word in argv[1:]:
        assert "\0" not in word
        if name in word and len(name) > 4:
            assert word in whole, (word, argv)


def test_every_name_of_a_package_is_only_a_name_or_refused_before_anything_runs(tools: Tools) -> None:
    loop = asyncio.new_event_loop()

    def judge(author: Author) -> None:
        name, version = author.name(), author.version()
        ran = loop.run_until_complete(tools.package(name, version))
        fits = SAFE_NAME.fullmatch(name) and len(name) <= 255 and not name.endswith("-")
        assert fits or not [argv for argv in ran if any(name in word for word in argv[1:])], (name, ran)
        schema = compile_pattern(hints.PACKAGE).search(name) and len(name) <= hints.PACKAGE_MAX
        assert bool(schema) == bool(fits), "the schema and the host refuse the same"
        for argv in ran:
            only_a_name(argv, name, version)
        try:
            common.check_wanted([WantedPackage(name, version)])
        except HostError as error:
            bounded(error)
        else:
            assert fits
            assert version == "" or re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+:~^,-]*", version)

    try:
        each("names of packages", 0.2, judge)
    finally:
        loop.close()


def test_every_name_of_a_service_is_only_a_name_or_refused_before_anything_runs(tools: Tools) -> None:
    loop = asyncio.new_event_loop()

    def judge(author: Author) -> None:
        name = author.name()
        ran = loop.run_until_complete(tools.service(name))
        for argv in ran:
            for at, word in enumerate(argv[1:], 1):
                if name in word and len(name) > 4 and word not in ("default", "enabled"):
                    assert SAFE_UNIT.fullmatch(name), (name, argv)
                    assert not word.startswith("-") or argv[at - 1] == "--", argv
                    assert "/" not in name

    try:
        each("names of services", 0.1, judge)
    finally:
        loop.close()


def accepted(found: ConfigSet) -> None:
    """Check what an API would let pass."""
    for package in found.spec.packages:
        common.check_wanted([WantedPackage(package.name, package.version)])
    for service in found.spec.services:
        assert SAFE_UNIT.fullmatch(service.name), service.name
        assert not service.name.startswith("-"), service.name
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", service.arguments + service.user)
    for file in found.spec.files:
        assert file.path.startswith("/"), file.path
        assert not {"..", "."} & set(file.path.split("/")), file.path
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", file.path + file.owner + file.target)
    for execution in found.spec.executions:
        assert durations.parse(execution.timeout) > 0


def test_every_manifest_is_taken_or_refused_with_field_and_reason() -> None:
    def judge(author: Author) -> None:
        obj = author.config_set()
        try:
            accepted(manifest_checks.typed(obj, CONFIG_SETS, "x.yaml"))
        except ManifestError as error:
            bounded(error, "cannot use ConfigSet")

    each("manifests", 0.2, judge)


@pytest.mark.parametrize("odd", [1, True, ["x"], {"a": "b"}])
def test_metadata_that_is_no_text_is_a_mistake_in_the_manifest_and_not_one_of_ours(odd: Any) -> None:
    labels = {"role": odd}
    for metadata in (
        {"name": odd},
        {"name": "web", "labels": labels},
        {"name": "web", "annotations": labels},
    ):
        obj = {"apiVersion": "common.nodemanager/v1", "kind": "ConfigSet", "metadata": metadata, "spec": {}}
        with pytest.raises(ManifestError, match=r"cannot use ConfigSet .* in x\.yaml: .*\$\.metadata"):
            manifest_checks.typed(obj, CONFIG_SETS, "x.yaml")


def test_every_text_of_a_manifest_is_read_or_refused() -> None:
    def judge(author: Author) -> None:
        obj = author.config_set()
        text = manifests.dump(obj)
        for _ in range(author.random.choice((0, 1, 1, 3))):
            at = author.random.randrange(len(text))
            odd = author.random.choice(
                ("&a ", "*a", "!x ", "<<: ", "{", "[", "- ", "? ", "\t", "|", ">", "%", "\x00", '"')
            )
            text = text[:at] + odd + text[at + author.random.randrange(3) :]
        try:
            found = manifests.load_all(text, "x.yaml")
            for one in found:
                if one.get("kind") == "ConfigSet":
                    accepted(manifest_checks.typed(one, CONFIG_SETS, "x.yaml"))
        except ManifestError as error:
            bounded(error)

    each("texts of manifests", 0.1, judge)
