"""install-service below a folder that stands for a host, for all three init systems."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from nodemanager.host.base import HostError
from nodemanager.host.files.tree import Tree
from nodemanager.host.init import placing, systems
from nodemanager.host.init.installing import Installer, ServiceSettings
from nodemanager.host.init.systems import SYSTEMS, InstalledService
from nodemanager.plan.facts import ServiceFact
from support.fake_tools import MemoryServices

PROGRAM = "/usr/local/bin/nodemanager"
ALL = pytest.mark.parametrize("name", list(SYSTEMS))


class Host:
    """A folder with a program in it, and services in memory."""

    def __init__(
        self, folder: Path, name: str = "systemd", service: InstalledService = systems.AGENT
    ) -> None:
        self.root = folder
        self.system = systems.systems_of(service)[name]
        self.services = MemoryServices(**{self.system.unit_name: ServiceFact(known=True)})
        self.said: list[str] = []
        self.write(PROGRAM, "#!/bin/sh\n", 0o755)

    def write(self, path: str, text: str, mode: int = 0o644) -> Path:
        target = self.path(path)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        target.write_text(text)
        target.chmod(mode)
        return target

    def path(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    async def install(self, *, runs: bool = True, executable: str = PROGRAM, **settings: object) -> list[str]:
        """Install, and return what was done to the service."""
        wanted = ServiceSettings(executable, self.system.kubeconfig, **settings)  # type: ignore[arg-type]
        await self._do(runs, wanted)
        return self._calls()

    async def uninstall(self, *, force: bool = False) -> list[str]:
        await self._do(True, None, force=force)
        return self._calls()

    async def _do(self, runs: bool, settings: ServiceSettings | None, *, force: bool = False) -> None:
        tree = Tree(str(self.root))
        self.said.clear()
        try:
            installer = Installer(tree, self.system, self.services, runs, self.said.append)
            await (installer.uninstall(force=force) if settings is None else installer.install(settings))
        finally:
            tree.close()

    def _calls(self) -> list[str]:
        calls, self.services.calls = self.services.calls, []
        return [call.partition(" ")[0] for call in calls]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@ALL
async def test_a_service_is_written_enabled_and_started_once(tmp_path: Path, name: str) -> None:
    host = Host(tmp_path, name)
    host.write(host.system.kubeconfig, "", 0o600)
    assert await host.install() == ["refresh", "enable", "refresh", "start"]
    unit = host.path(host.system.path)
    assert unit.read_text() == host.system.unit(PROGRAM)
    assert unit.stat().st_mode & 0o777 == host.system.mode
    assert host.path(host.system.environment).read_text() == host.system.variables()
    before = unit.stat().st_ino
    assert await host.install() == ["enable"]
    assert unit.stat().st_ino == before
    assert host.said[-1] == "runs already, and nothing has changed"
    assert await host.install(variables={"NODEMANAGER_LOG_LEVEL": "DEBUG"}) == [
        "refresh",
        "enable",
        "restart",
    ]
    assert await host.uninstall() == ["stop", "disable", "refresh"]
    assert not unit.exists()
    assert host.path(host.system.environment).exists()
    assert host.path(host.system.kubeconfig).exists()
    assert await host.uninstall() == []
    assert host.said[0].startswith("nothing to remove")


@ALL
async def test_without_a_credential_nothing_is_started(tmp_path: Path, name: str) -> None:
    host = Host(tmp_path, name)
    assert await host.install() == ["refresh", "enable", "refresh"]
    assert "run nodemanager bootstrap, then" in host.said[-1]
    assert host.said[-1].endswith(host.system.start)


@ALL
async def test_the_operator_is_a_service_beside_the_agent(tmp_path: Path, name: str) -> None:
    agent, host = Host(tmp_path, name), Host(tmp_path, name, systems.OPERATOR)
    await agent.install()
    assert await host.install() == ["refresh", "enable", "refresh"]
    assert "put one there that may do what config/rbac/operator.yaml says, then" in host.said[-1]
    host.write(host.system.kubeconfig, "", 0o600)
    if name != "systemd":
        assert await host.install() == ["enable"]
        assert "there is no user nodemanager-operator; run " in host.said[-1]
        host.write("/etc/passwd", "root:x:0:0::/:/bin/sh\nnodemanager-operator:x:100:100::/:/bin/false\n")
    assert await host.install() == ["enable", "start"]
    flags = {"NODEMANAGER_FLAGS": "--log-level debug"}
    assert await host.install(variables=flags) == ["refresh", "enable", "restart"]
    variables = host.path(host.system.environment).read_text()
    assert variables.endswith('\nNODEMANAGER_FLAGS="--log-level debug"\n')
    assert await host.uninstall() == ["stop", "disable", "refresh"]
    assert host.said[-1] == f"left as they are: {host.system.environment}, {host.system.kubeconfig}"
    assert agent.path(agent.system.path).exists()


@ALL
async def test_the_server_needs_no_kubeconfig_and_its_data_stay(tmp_path: Path, name: str) -> None:
    host = Host(tmp_path, name, systems.SERVER)
    host.write("/etc/passwd", "nodemanager-server:x:100:100::/:/bin/false\n")
    assert await host.install() == ["refresh", "enable", "refresh", "start"]
    await host.uninstall()
    assert host.said[-1] == f"left as they are: {host.system.environment}, /var/lib/nodemanager-server"


@pytest.mark.parametrize("service", [systems.OPERATOR, systems.SERVER], ids=lambda each: each.command)
def test_operator_and_server_are_nobody(service: InstalledService) -> None:
    found = {name: system.unit(PROGRAM) for name, system in systems.systems_of(service).items()}
    assert "\nDynamicUser=yes\n" in found["systemd"]
    assert "\nCapabilityBoundingSet=\n" in found["systemd"]
    assert f'\ncommand_user="{service.user}"\n' in found["openrc"]
    assert f" -u {service.user} " in found["rc.d"]


async def test_an_image_is_not_started(host: Host) -> None:
    host.write(host.system.kubeconfig, "")
    assert await host.install(runs=False) == ["refresh", "enable", "refresh"]
    assert await host.install(start=False) == ["enable"]
    assert host.said[-1] == "not started; to start it now: systemctl start nodemanager"


@pytest.mark.parametrize("name", ["openrc", "rc.d"])
@pytest.mark.parametrize("service", systems.SERVICES.values(), ids=systems.SERVICES)
def test_scripts_are_valid(name: str, service: InstalledService) -> None:
    script = systems.systems_of(service)[name].unit(PROGRAM)
    checked = subprocess.run(
        ["sh", "-n"], input=script, text=True, timeout=60, check=False, capture_output=True
    )
    assert (checked.returncode, checked.stderr) == (0, "")


@ALL
def test_nothing_is_left_to_be_filled_in(name: str) -> None:
    system = SYSTEMS[name]
    for text in (system.unit(PROGRAM, "/etc/k"), system.variables()):
        assert re.findall(r"@[A-Z]+@", text) == []
    assert f"{PROGRAM}" in system.unit(PROGRAM, "/etc/k")
    assert "/etc/k" in system.unit(PROGRAM, "/etc/k")
    assert system.unit(PROGRAM).splitlines()[0 if name == "systemd" else 1] == f"# {systems.WRITTEN}"


@pytest.mark.parametrize(
    "path", ["bin/nodemanager", "/opt/no blanks", "/opt/$HOME/x", "/opt/%h/x", '/opt/"', ""]
)
def test_paths_that_would_mean_something_else_are_refused(path: str) -> None:
    for system in SYSTEMS.values():
        with pytest.raises(HostError, match="cannot use executable"):
            system.unit(path)


async def test_a_file_of_somebody_else_stays(host: Host) -> None:
    theirs = host.write(host.system.path, "[InstalledService]\nExecStart=/opt/theirs\n")
    with pytest.raises(HostError, match="was not written by install-service"):
        await host.install()
    with pytest.raises(HostError, match="was not written by install-service"):
        await host.uninstall()
    assert theirs.read_text() == "[InstalledService]\nExecStart=/opt/theirs\n"
    assert host.services.calls == []
    assert await host.install(force=True) == ["refresh", "enable", "refresh"]
    assert theirs.read_text() == host.system.unit(PROGRAM)


async def test_the_service_of_a_package_is_enough(host: Host) -> None:
    host.write("/lib/systemd/system/nodemanager.service", "")
    with pytest.raises(HostError, match="needs nothing but systemctl start nodemanager"):
        await host.install()
    assert not host.path(host.system.path).exists()


async def test_a_masked_unit_stays_masked(host: Host) -> None:
    unit = host.path(host.system.path)
    unit.parent.mkdir(parents=True)
    unit.symlink_to("/dev/null")
    with pytest.raises(HostError, match="masked"):
        await host.install()
    assert unit.is_symlink()


async def test_a_planted_link_is_not_written_through(host: Host, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    unit = host.path(host.system.path)
    unit.parent.mkdir(parents=True)
    unit.symlink_to(victim)
    environment = host.path(host.system.environment)
    environment.parent.mkdir(parents=True)
    environment.symlink_to(victim)
    for force in (False, True):
        with pytest.raises(HostError, match="it is a link"):
            await host.install(force=force)
    assert victim.read_text() == "precious"


async def test_a_script_that_lost_its_mode_is_mended(tmp_path: Path) -> None:
    host = Host(tmp_path, "openrc")
    await host.install()
    script = host.path(host.system.path)
    script.chmod(0o644)
    assert (await host.install())[0] == "refresh"
    assert script.stat().st_mode & 0o777 == 0o755


async def test_the_administrators_variables_stay(host: Host) -> None:
    text = (
        "# mine\nNODEMANAGER_NAMESPACE=infra\nexport NODEMANAGER_LOG_LEVEL=INFO\nNODEMANAGER_LOG_LEVEL=WARN\n"
    )
    variables = host.write(host.system.environment, text, 0o640)
    await host.install()
    assert variables.read_text() == text
    await host.install(variables={"NODEMANAGER_LOG_LEVEL": "DEBUG", "NODEMANAGER_HOSTNAME": "web1"})
    assert variables.read_text() == (
        '# mine\nNODEMANAGER_NAMESPACE=infra\nNODEMANAGER_LOG_LEVEL="DEBUG"\nNODEMANAGER_HOSTNAME="web1"\n'
    )
    assert variables.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "value", ["plain", "two words", "$HOME `id` $(id)", 'a"b', "a\\b", "it's", "a=b#c", ""]
)
def test_a_shell_reads_back_what_was_set(value: str) -> None:
    text = systems.with_variables("", {"NODEMANAGER_X": value})
    script = f'set -a\n{text}set +a\nprintf %s "$NODEMANAGER_X"\n'
    read = subprocess.run(["sh", "-u"], input=script, text=True, timeout=60, check=True, capture_output=True)
    assert read.stdout == value


def test_a_comment_stays_one_comment() -> None:
    text = "# page\x0cNODEMANAGER_LOG_LEVEL=DEBUG\u2028NODEMANAGER_ROOT=/\n"
    assert systems.with_variables(text, {"NODEMANAGER_X": "y"}) == f'{text}NODEMANAGER_X="y"\n'


def test_what_no_line_can_hold_is_refused() -> None:
    with pytest.raises(HostError, match="cannot set NODEMANAGER_X"):
        systems.with_variables("", {"NODEMANAGER_X": "a\nNODEMANAGER_Y=b"})


@pytest.mark.parametrize(
    ("where", "why"),
    [
        pytest.param(
            "/tmp/nodemanager", "what is in /tmp does not stay there; run install -m 0755", id="tmp"
        ),
        pytest.param("/home/ann/nodemanager", "what is in /home does not stay there; run install", id="home"),
        pytest.param(
            "/home/ann/.venv/bin/nodemanager", "run make build, install -m 0755 bin/manager", id="venv"
        ),
        pytest.param("/usr/bin/missing", "No such file", id="missing"),
        pytest.param("/usr/bin/none/at/all", "none does not exist", id="no folder"),
        pytest.param("/usr/local/bin", "it is not a file", id="folder"),
    ],
)
async def test_a_program_that_does_not_stay_is_refused(host: Host, where: str, why: str) -> None:
    for path in (
        "/tmp/nodemanager",
        "/home/ann/nodemanager",
        "/home/ann/.venv/bin/nodemanager",
        "/usr/bin/x",
    ):
        host.write(path, "", 0o755)
    host.write("/home/ann/.venv/pyvenv.cfg", "")
    with pytest.raises(HostError, match=why) as caught:
        await host.install(executable=where)
    assert str(caught.value).startswith(f"cannot start {where} as a service: ")
    assert not host.path(host.system.path).exists()


async def test_a_program_that_others_can_exchange_is_refused(host: Host) -> None:
    program = host.path(PROGRAM)
    program.chmod(0o757)
    with pytest.raises(HostError, match=f"others may write to {PROGRAM}; run chmod go-w {PROGRAM}"):
        await host.install()
    program.chmod(0o644)
    with pytest.raises(HostError, match="it is not executable"):
        await host.install()
    program.chmod(0o755)
    program.parent.chmod(0o777)
    with pytest.raises(HostError, match="others may write to /usr/local/bin;"):
        await host.install()
    assert await host.install(force=True) == ["refresh", "enable", "refresh"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_a_program_of_somebody_else_is_refused(host: Host) -> None:
    os.chown(host.path(PROGRAM), 1234, 0)
    with pytest.raises(HostError, match=f"{PROGRAM} belongs to user 1234"):
        await host.install()


@pytest.mark.parametrize("path", ["//usr/local/bin/nodemanager", "/usr/local/bin/../../../root/nodemanager"])
async def test_a_path_that_hides_where_it_leads_is_refused(host: Host, path: str) -> None:
    host.write("/root/nodemanager", "", 0o755)
    with pytest.raises(HostError, match="a service needs the whole path"):
        await host.install(executable=path)


async def test_a_link_that_hides_where_it_leads_is_seen_through(host: Host) -> None:
    program = host.path(PROGRAM)
    program.unlink()
    host.write("/root/nodemanager", "", 0o755)
    program.symlink_to("//root/nodemanager")
    with pytest.raises(HostError, match="what is in /root does not stay there"):
        await host.install()


async def test_links_to_a_program_are_followed(host: Host) -> None:
    host.write("/opt/nodemanager-1/manager", "", 0o755)
    link = host.path("/usr/bin/nodemanager")
    link.parent.mkdir()
    link.symlink_to("../../opt/nodemanager-1/manager")
    await host.install(executable="/usr/bin/nodemanager")
    assert "ExecStart=/usr/bin/nodemanager " in host.path(host.system.path).read_text()
    link.unlink()
    link.symlink_to("/tmp/x")
    with pytest.raises(HostError, match="what is in /tmp does not stay"):
        await host.install(executable="/usr/bin/nodemanager")
    link.unlink()
    link.symlink_to("nodemanager")
    with pytest.raises(HostError, match="too many links"):
        await host.install(executable="/usr/bin/nodemanager")


def test_a_folder_that_cannot_be_written_is_named(host: Host) -> None:
    host.write("/etc/default", "no folder")
    tree = Tree(str(host.root))
    try:
        with pytest.raises(OSError, match="default is not a directory"):
            placing.put(tree, "/etc/default/nodemanager", "", 0o644)
    finally:
        tree.close()
