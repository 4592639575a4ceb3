"""The packages of a release on hosts of many kinds: installed, at work, upgraded, downgraded, removed.

Skipped where there is no release: make release, then make e2e ARGS='-n 0 -s -k test_release_packages', which
prints a table in the end: what each host has done, and how many seconds it took since the one before.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import nodemanager

sys.path.append(str(Path(__file__).resolve().parents[2]))  # tools/ is not installed

from bench.work import Work
from tools.packages.contents import Program

from support import debian_packages, emulation, static_program
from support.bridge import Bridge
from support.fleet import LONG, Host, check_manager, serving, until
from support.fleet_api import FleetApi
from support.release_hosts import KINDS, Dpkg, Driver, Kind, Rpm
from support.static_program import NEW, OLD

pytestmark = pytest.mark.timeout(1500)
LEFT = ("/etc/nodemanager/kubeconfig", "/var/lib/nodemanager")
JINJA = "{{ [3, 1, 2] | sort | join(',') }}\n"
SECONDS = 300.0
COLUMNS = ("joined", "1,000 files and 50 templates", "drift put back", "upgraded", "downgraded", "removed")


@dataclass
class Site:
    """An API that hosts can reach, and two versions of every package for each target."""

    api: FleetApi
    bridge: Bridge
    folder: Path
    progress: dict[str, list[float]] = field(default_factory=dict)
    """When each host had got how far."""

    def note(self, name: str) -> None:
        """Note that a host has got one column further."""
        self.progress.setdefault(name, []).append(time.monotonic())

    def table(self) -> str:
        """Return what all hosts have done, as Markdown."""
        lines = [f"| host | {' | '.join(COLUMNS)} |", f"|---{'|---' * len(COLUMNS)}|"]
        for name, moments in self.progress.items():
            spans = [f"{after - before:.0f} s" for before, after in itertools.pairwise(moments)]
            cells = [*spans, *["-"] * (len(COLUMNS) - len(spans))]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        return "\n".join(lines)

    def package(self, version: str, driver: Driver, target: str = static_program.NATIVE) -> Path:
        """Return the package of a version; made once."""
        folder = self.folder / target / version / driver.suffix.strip(".")
        if not folder.is_dir():
            folder.mkdir(parents=True)
            renamed = static_program.renamed(static_program.find(target), version, self.folder)
            driver.build(Program(renamed, target, version, 1700000000, effort=1), folder)
        return next(folder.iterdir())

    @contextlib.contextmanager
    def host(self, kind: Kind) -> Iterator[Host]:
        """Boot a host of a kind."""
        name = f"host-{secrets.token_hex(3)}"
        network, address = self.bridge.plug(name)
        with kind.driver.machine.boot(name, base=kind.base(), network=network) as machine:
            kind.driver.prepare(machine)
            yield Host(name, address, machine, self.api)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    static_program.find()
    check_manager()
    debian_packages.ensure("dpkg-dev", "rpm")
    folder = tmp_path_factory.mktemp("release")
    with Bridge() as bridge, serving(folder, bridge.address) as api:
        made = Site(api, bridge, folder)
        yield made
        sys.stdout.write(f"\n{made.table()}\n")


@contextlib.contextmanager
def told(host: Host) -> Iterator[None]:
    """Print what the agent wrote when a test fails."""
    try:
        yield
    except BaseException:
        for text in (host.log(), host.text("/var/log/agent")):
            sys.stdout.write(text[-6000:])
        raise


def running(host: Host) -> str:
    """Return the version of the agent that reports."""
    return str(host.status().get("agentVersion", "")) if host.is_active("nodemanager") else ""


def reports(host: Host, expected: str) -> bool:
    return bool(host.status().get("agentVersion") == expected)


def version(host: Host) -> str:
    return host.machine.run("nodemanager", "version").stdout.split()[1]


def exists(host: Host, *paths: str) -> list[bool]:
    return [host.machine.run("test", "-e", path, check=False).returncode == 0 for path in paths]


def bring_about(host: Host, driver: Driver) -> None:
    """Have a thousand files brought about, templates of both kinds, and with dpkg packages that are there."""
    work = Work(1000, packages=isinstance(driver, Dpkg))
    sets = [{**one, "metadata": {
        "name": f"{one['metadata']['name']}-{host.name}", "labels": {"kubernetes.io/hostname": host.name},
    }} for one in work.config_sets()]  # fmt: skip
    host.api.apply(*sets)
    files: list[dict[str, Any]] = [{"path": "/srv/made/7", "content": "7\n"}]
    files.append({"path": "/srv/made/go", "template": 'I am {{ (ds "data").Node.Name }}\n'})
    files.append({"path": "/srv/made/jinja", "template": JINJA, "engine": "jinja"})
    touch = {"command": "/bin/touch", "args": ["/srv/touched"], "subscribe_files": ["/srv/made/go"]}
    name = f"made-{host.name}"
    host.api.config_set(name, host.name, files=files, executions=[touch])
    for each in (*(one["metadata"]["name"] for one in sets), name):
        host.converge(each, SECONDS)
    assert host.text("/srv/made/go") == f"I am {host.name}\n"
    assert host.text("/srv/made/jinja") == "1,2,3\n"
    assert exists(host, "/srv/touched") == [True]
    found = host.machine.run("find", "/etc/bench", "-type", "f").stdout.split()
    assert sorted(found) == sorted(path for path, _ in (*work.contents(), *work.templates({})))
    for path, text in itertools.islice(work.contents(), 3):
        assert host.text(path) == text


def drift(host: Host) -> None:
    """Spoil files, and wait until they are put back."""
    path, text = next(Work().contents())
    host.machine.write("/srv/made/7", "drift")
    host.machine.write(path, "drift")
    until(lambda: host.text("/srv/made/7") == "7\n" and host.text(path) == text, "the repair")


SERVICES = [name for name, kind in KINDS.items() if kind.has_systemd]


@pytest.mark.parametrize("name", SERVICES)
def test_on_a_host_with_systemd(name: str, site: Site) -> None:
    driver = KINDS[name].driver
    old, new = (site.package(each, driver) for each in (OLD, NEW))
    with site.host(KINDS[name]) as host, told(host):
        site.note(name)
        if not isinstance(driver, Rpm):  # dnf is written in it
            assert exists(host, "/usr/bin/python3", "/usr/lib/python3") == [False, False]
        driver.install(host.machine, old)
        assert version(host) == OLD
        if isinstance(driver, Dpkg | Rpm):
            assert host.shows("nodemanager", "UnitFileState") == "enabled"
            assert (host.shows("nodemanager", "ActiveState"), host.shows("nodemanager", "Result")) == (
                "inactive", "success",
            )  # fmt: skip
        host.bootstrap()
        if isinstance(driver, Dpkg | Rpm):
            host.machine.run("systemctl", "start", "nodemanager")
        else:
            host.machine.run("nodemanager", "install-service")
        until(lambda: running(host) == OLD, "the agent")
        site.note(name)
        bring_about(host, driver)
        site.note(name)
        drift(host)
        site.note(name)
        upgrade_at_work(host, driver, new)
        site.note(name)
        driver.install(host.machine, old)
        if not isinstance(driver, Dpkg | Rpm):
            host.machine.run("systemctl", "restart", "nodemanager")
        until(lambda: running(host) == OLD, "the old agent after a downgrade")
        site.note(name)
        take_away(host, driver, old)
        site.note(name)


def upgrade_at_work(host: Host, driver: Driver, new: Path) -> None:
    """Upgrade while an execution runs: it goes on to its end, and the new agent knows how it ended."""
    host.machine.write("/usr/local/bin/long", LONG, 0o755)
    files = [{"path": "/etc/long.conf", "content": f"{host.shows('nodemanager', 'InvocationID')}\n"}]
    long = {"command": "/usr/local/bin/long", "subscribe_files": ["/etc/long.conf"]}
    name = f"long-{host.name}"
    host.api.config_set(name, host.name, files=files, executions=[long])
    until(lambda: "began" in host.text("/run/long"), "the execution")
    before = host.shows("nodemanager", "MainPID")
    driver.install(host.machine, new)
    if not isinstance(driver, Dpkg | Rpm):
        host.machine.run("systemctl", "--no-block", "restart", "nodemanager")
    until(lambda: host.shows("nodemanager", "MainPID") not in ("0", before), "the new agent")
    host.machine.run("touch", "/run/go-on")
    host.converge(name)
    assert host.text("/run/long") == "began\nended\n"
    until(lambda: running(host) == NEW, "the report of the new agent")
    assert version(host) == NEW


def take_away(host: Host, driver: Driver, old: Path) -> None:
    """Remove the package: the agent stops, and what it needs to go on stays; purging takes that, too."""
    host.machine.write("/etc/default/nodemanager", 'NODEMANAGER_LOG_LEVEL="DEBUG"\n')
    if not isinstance(driver, Dpkg | Rpm):
        host.machine.run("nodemanager", "install-service", "--uninstall")
    driver.remove(host.machine)
    assert host.shows("nodemanager", "ActiveState") == "inactive"
    gone = ("/usr/bin/nodemanager", "/lib/systemd/system/nodemanager.service", "/usr/local/bin/nodemanager")
    assert exists(host, *gone, *LEFT, "/srv/made/go") == [False] * 3 + [True] * 3
    if isinstance(driver, Dpkg):
        driver.install(host.machine, old)
        until(lambda: running(host) == OLD, "the agent to be back")
        assert "DEBUG" in host.text("/etc/default/nodemanager")
        driver.purge(host.machine)
        assert exists(host, *LEFT, "/etc/default/nodemanager", "/srv/made/go") == [False] * 3 + [True]
    elif isinstance(driver, Rpm):
        assert "DEBUG" in host.text("/etc/default/nodemanager.rpmsave")


@contextlib.contextmanager
def agent(host: Host) -> Iterator[None]:
    """Run the agent of a host that has no init system, with what it says in a file of the host."""
    flags = "--kubeconfig /etc/nodemanager/kubeconfig --metrics-bind-address 0 --health-probe-bind-address 0"
    script = f"echo $$ >/run/agent.pid; exec nodemanager agent {flags} >>/var/log/agent 2>&1"
    with host.machine.popen("sh", "-c", script) as process:
        try:
            yield
        finally:
            host.machine.run("sh", "-c", "kill $(cat /run/agent.pid)")
            assert process.wait(60) == 0, host.text("/var/log/agent")[-4000:]


BOXES = [name for name, kind in KINDS.items() if not kind.has_systemd]


@pytest.mark.parametrize("name", BOXES)
def test_on_a_host_without_an_init_system(name: str, site: Site) -> None:
    work_in_a_box(site, name, KINDS[name], static_program.NATIVE)


@pytest.mark.parametrize("target", [name for name in emulation.MAGIC if name != static_program.NATIVE])
def test_on_an_emulated_processor(target: str, site: Site) -> None:
    static_program.find(target)
    with emulation.registered(target):
        work_in_a_box(site, f"busybox, {target}", KINDS["busybox"], target)


def work_in_a_box(site: Site, name: str, kind: Kind, target: str) -> None:
    """Join, converge, drift, upgrade, downgrade, remove."""
    driver = kind.driver
    old, new = (site.package(each, driver, target) for each in (OLD, NEW))
    with site.host(kind) as host, told(host):
        site.note(name)
        host.machine.run("mkdir", "-p", "/var/log", "/srv")
        driver.install(host.machine, old)
        host.bootstrap()
        with agent(host):
            until(partial(reports, host, OLD), "the agent", SECONDS)
            site.note(name)
            bring_about(host, driver)
            site.note(name)
            drift(host)
            site.note(name)
            driver.install(host.machine, new)
        for expected, package in ((NEW, new), (OLD, old)):
            driver.install(host.machine, package)
            assert version(host) == expected
            with agent(host):
                until(partial(reports, host, expected), "the next agent")
            site.note(name)
        assert "Traceback" not in host.text("/var/log/agent")
        driver.remove(host.machine)
        assert exists(host, *LEFT, "/srv/made/go") == [True] * 3
        assert host.machine.run("nodemanager", "version", check=False).returncode == 127
        site.note(name)


def test_lintian_finds_nothing(tmp_path: Path) -> None:
    debian_packages.ensure("lintian")
    made_of = Program(
        static_program.find(), static_program.NATIVE, nodemanager.__version__, 1700000000, effort=1
    )
    package = Dpkg.build(made_of, tmp_path)
    argv = ["lintian", "--allow-root", "--pedantic", "--fail-on", "error,warning", str(package)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, re.findall("^[EWP]: .*", done.stdout, re.MULTILINE)) == (0, [])
