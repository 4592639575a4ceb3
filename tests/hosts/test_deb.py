"""The Debian package on a real host: installed, upgraded while the agent works, removed, purged."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))  # tools/ is not installed

from tools import binary, deb

from support import debian_packages
from support.fleet import LONG, MANAGER, Fleet, Host, apt_repository, check_manager, until

OLD, NEW = "0.0.1", "0.0.2"
pytestmark = pytest.mark.timeout(300)


def renamed(folder: Path, version: str) -> Path:
    """Return bin/manager as another version of it: all but one module of it is as it was."""
    files = {}
    with (
        zipfile.ZipFile(MANAGER) as packed,
        packed.open(binary.SITE) as compressed,
        tarfile.open(fileobj=compressed, mode="r|xz") as site,
    ):
        for member in site:
            if (data := site.extractfile(member)) is not None:
                files[member.name] = data.read()
    module = folder / version / "__init__.py"
    module.parent.mkdir()
    module.write_text(f'__version__ = "{version}"\n')
    compiled = binary.compile_file(module, "nodemanager/__init__.py")
    assert compiled is not None
    assert compiled[0] in files
    files |= {"nodemanager/__init__.py": module.read_bytes(), compiled[0]: compiled[1]}
    binary.pack(files, folder / f"manager-{version}", preset=0)
    return folder / f"manager-{version}"


@pytest.fixture(scope="module")
def shared_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A host to which apt offers two versions of nodemanager."""
    check_manager()
    folder = tmp_path_factory.mktemp("deb")
    with apt_repository(folder / "apt") as repository:
        for version in (OLD, NEW):
            deb.build(renamed(folder, version), repository.repo, version)
        repository.index()
    with Fleet.up(folder, "web", repository=repository.repo) as fleet:
        fleet["web"].machine.run("apt-get", "update")
        yield fleet


@pytest.fixture
def host(shared_fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Host]:
    """The host, with no nodemanager on it and nothing left of one."""
    with shared_fleet.watched(request) as fleet:
        host = fleet["web"]
        apt(host, "purge", "nodemanager")
        host.machine.run("rm", "--force", "/run/long", "/run/go-on")
        yield host


def apt(host: Host, *argv: str) -> str:
    """Run apt-get, and return what it said."""
    environment = {"DEBIAN_FRONTEND": "noninteractive"}
    patience = ("--option", "DPkg::Lock::Timeout=120")  # an apt of the agent may be about to end
    options = ("--yes", "--allow-downgrades", *patience)
    done = host.machine.run("apt-get", *options, *argv, env=environment, timeout=240)
    return done.stdout + done.stderr


def install(host: Host, version: str) -> str:
    """Install the file of a version, as who has downloaded it does."""
    architecture = host.machine.run("dpkg", "--print-architecture").stdout.strip()
    return apt(host, "install", f"/srv/repository/nodemanager_{version}_{architecture}.deb")


def join(host: Host, version: str = OLD) -> None:
    """Install a version, give it a credential, and start it."""
    install(host, version)
    host.bootstrap()
    host.machine.run("systemctl", "start", "nodemanager")
    until(lambda: running(host) == version, "the agent")


def running(host: Host) -> str:
    """Return the version of the agent that reports."""
    return str(host.status().get("agentVersion", "")) if host.is_active("nodemanager") else ""


def exists(host: Host, *paths: str) -> list[bool]:
    return [host.machine.run("test", "-e", path, check=False).returncode == 0 for path in paths]


def test_without_a_credential_it_is_enabled_and_waits(host: Host) -> None:
    said = install(host, OLD)
    assert "Failed" not in said, said
    assert host.shows("nodemanager", "UnitFileState") == "enabled"
    assert (host.shows("nodemanager", "ActiveState"), host.shows("nodemanager", "Result")) == (
        "inactive", "success",
    )  # fmt: skip
    assert host.machine.run("nodemanager", "version").stdout.startswith(f"nodemanager {OLD} ")
    verified = host.machine.run("systemd-analyze", "verify", "--man=no", "nodemanager.service")
    assert verified.stdout + verified.stderr == ""
    refused = host.machine.run("nodemanager", "install-service", check=False)
    assert "needs nothing but systemctl start nodemanager" in refused.stderr
    host.bootstrap()
    host.machine.run("systemctl", "start", "nodemanager")
    host.api.config_set("motd", host.name, files=[{"path": "/etc/motd.deb", "content": "hello\n"}])
    host.converge("motd")
    assert host.text("/etc/motd.deb") == "hello\n"
    host.machine.run("systemctl", "reload", "nodemanager")
    assert host.is_active("nodemanager")


def test_an_upgrade_does_not_end_what_the_agent_runs(host: Host) -> None:
    join(host)
    host.machine.write("/usr/local/bin/long", LONG, 0o755)
    files = [{"path": "/etc/long.conf", "content": f"{host.shows('nodemanager', 'InvocationID')}\n"}]
    long = {"command": "/usr/local/bin/long", "subscribe_files": ["/etc/long.conf"]}
    host.api.config_set("long", host.name, files=files, executions=[long])
    until(lambda: "began" in host.text("/run/long"), "the execution")
    before = host.shows("nodemanager", "MainPID")
    install(host, NEW)
    until(lambda: host.shows("nodemanager", "MainPID") not in ("0", before), "the new agent")
    host.machine.run("touch", "/run/go-on")
    until(lambda: "ended" in host.text("/run/long"), "the end of the execution")
    host.converge("long")
    assert host.text("/run/long") == "began\nended\n"
    until(lambda: running(host) == NEW, "the report of the new agent")
    assert host.machine.run("nodemanager", "version").stdout.startswith(f"nodemanager {NEW} ")


def test_an_agent_upgrades_itself(host: Host) -> None:
    join(host)
    package = {"name": "nodemanager", "ensure": "installed", "version": NEW}
    host.api.config_set("self", host.name, packages=[package])
    until(lambda: running(host) == NEW, "the new agent")
    host.converge("self")
    assert "ok installed" in host.machine.run("dpkg-query", "-W", "-f", "${Status}", "nodemanager").stdout
    host.api.config_set("self", host.name, packages=[])
    host.converge("self")  # or the agent would take the old one for a drift
    install(host, OLD)
    until(lambda: running(host) == OLD, "the old agent after a downgrade")


def test_only_what_is_the_agents_own_goes(host: Host) -> None:
    join(host)
    host.api.config_set("kept", host.name, files=[{"path": "/etc/kept", "content": "kept\n"}])
    host.converge("kept")
    host.machine.write("/etc/nodemanager/agent.yaml", "log-level: INFO\n")
    host.machine.write("/etc/default/nodemanager", 'NODEMANAGER_LOG_LEVEL="DEBUG"\n')
    apt(host, "remove", "nodemanager")
    left = ("/etc/kept", "/etc/nodemanager/kubeconfig", "/var/lib/nodemanager", "/etc/default/nodemanager")
    gone = ("/usr/bin/nodemanager", "/lib/systemd/system/nodemanager.service", "/var/cache/nodemanager")
    assert exists(host, *left, *gone) == [True] * len(left) + [False] * len(gone)
    assert host.shows("nodemanager", "ActiveState") == "inactive"
    install(host, OLD)
    until(lambda: running(host) == OLD, "the agent to be back")
    assert host.text("/etc/default/nodemanager") == 'NODEMANAGER_LOG_LEVEL="DEBUG"\n'
    apt(host, "purge", "nodemanager")
    kept = ("/etc/kept", "/etc/nodemanager/agent.yaml")
    assert exists(host, *kept, *left[1:], *gone) == [True] * len(kept) + [False] * (len(left) - 1 + len(gone))
    assert host.text("/etc/kept") == "kept\n"


def test_what_the_administrator_decided_about_the_service_stays(host: Host) -> None:
    join(host)
    host.machine.run("systemctl", "disable", "--now", "nodemanager")
    install(host, NEW)
    assert host.shows("nodemanager", "UnitFileState") == "disabled"
    assert host.shows("nodemanager", "ActiveState") == "inactive"


def test_the_same_program_gives_the_same_package(tmp_path: Path) -> None:
    built = [deb.build(MANAGER, tmp_path / name).read_bytes() for name in ("a", "b")]
    assert built[0] == built[1]


def test_lintian_finds_nothing(tmp_path: Path) -> None:
    debian_packages.ensure("lintian")
    package = deb.build(MANAGER, tmp_path)
    argv = ["lintian", "--allow-root", "--pedantic", "--fail-on", "error,warning", str(package)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=900, check=False)
    assert (done.returncode, re.findall("^[EWP]: .*", done.stdout, re.MULTILINE)) == (0, [])
