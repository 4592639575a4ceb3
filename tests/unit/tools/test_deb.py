"""What is in the Debian package; that it works is shown on real hosts."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from support import cli, scripts

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="only Debian has dpkg-deb")


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program without anything in it but a licence."""
    from tools import binary

    site = tmp_path / "site"
    (site / "thing-1.dist-info/licenses").mkdir(parents=True)
    (site / "thing-1.dist-info/licenses/LICENSE.txt").write_text("do as you like\n")
    binary.build(site, tmp_path / "manager")
    return tmp_path / "manager"


def ask(package: Path, *argv: str) -> str:
    done = subprocess.run(
        ["dpkg-deb", argv[0], str(package), *argv[1:]], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout


def test_a_package_is_the_same_whenever_it_is_built(program: Path, tmp_path: Path) -> None:
    from tools import deb

    first = deb.build(program, tmp_path / "a", "1.2~rc1")
    assert first.read_bytes() == deb.build(program, tmp_path / "b", "1.2~rc1").read_bytes()
    assert ask(first, "--field", "Version").strip() == "1.2~rc1"
    assert "2023-11-14" in ask(first, "--contents")


def test_it_brings_completion_where_shells_look_for_it(program: Path) -> None:
    from tools import deb
    from tools.packages.contents import Program

    files = deb.contents(Program(program, "linux-amd64", "1", 0))
    for shell, path in (
        ("bash", "usr/share/bash-completion/completions/nodemanager"),
        ("zsh", "usr/share/zsh/vendor-completions/_nodemanager"),
        ("fish", "usr/share/fish/vendor_completions.d/nodemanager.fish"),
    ):
        data, mode = files[path]
        assert (data.decode(), mode) == (cli.run("completion", shell).stdout, 0o644)


def test_it_asks_for_the_python_that_it_was_built_for(program: Path, tmp_path: Path) -> None:
    from tools import deb
    from tools.packages.contents import CannotBuild

    package = deb.build(program, tmp_path)
    text = program.read_bytes()
    program.write_bytes(text.replace(b"needs Python 3.11;", b"needs Python 3.13;"))
    other = deb.build(program, tmp_path, "2")
    assert "python3 (>= 3.11), python3 (<< 3.12)" in ask(package, "--field", "Depends")
    assert "python3 (>= 3.13), python3 (<< 3.14)" in ask(other, "--field", "Depends")
    program.write_bytes(text.replace(b"needs Python", b"likes Python"))
    with pytest.raises(CannotBuild, match="is not made by make build"):
        deb.build(program, tmp_path, "3")


def test_files_have_owners_and_modes(program: Path, tmp_path: Path) -> None:
    from tools import deb

    package = deb.build(program, tmp_path)
    lines = [line.split() for line in ask(package, "--contents").splitlines()]
    assert {line[1] for line in lines} == {"root/root"}
    modes = {line[5]: line[0] for line in lines if not line[0].startswith("d")}
    assert modes.pop("./usr/bin/nodemanager") == "-rwxr-xr-x"
    assert set(modes.values()) == {"-rw-r--r--"}
    assert "./usr/share/doc/nodemanager/licenses/thing-1.LICENSE" in modes
    ask(package, "--control", str(tmp_path / "control"))
    assert (tmp_path / "control/conffiles").read_text() == "/etc/default/nodemanager\n"
    for script in ("postinst", "prerm", "postrm"):
        subprocess.run(["sh", "-n", str(tmp_path / "control" / script)], check=True, timeout=60)


def test_a_version_that_is_none_is_refused(program: Path, tmp_path: Path) -> None:
    from tools import deb
    from tools.packages.contents import CannotBuild

    with pytest.raises(CannotBuild, match="'v1' is no version"):
        deb.build(program, tmp_path, "v1")


class Host:
    """A folder that stands for a host, for scripts of the package that name its paths."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for path in ("run/systemd/system", "bin"):
            (root / path).mkdir(parents=True)
        for name in ("systemctl", "deb-systemd-helper", "deb-systemd-invoke"):
            scripts.write(root / "bin" / name, f'echo {name} "$@" >> {root}/called\n')
        self.mine = [self.write(path) for path in ("var/cache/nodemanager/x", "etc/nodemanager/kubeconfig")]
        self.mine += [
            self.write(f"var/lib/nodemanager/{name}") for name in ("secrets", ".hidden", "filebucket/x")
        ]

    def write(self, path: str, text: str = "") -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def run(self, script: str, *args: str) -> None:
        text = (ROOT / "tools/debian" / script).read_text()
        text = text.replace("@UNPACK@", "")
        for folder in ("/var/", "/etc/", "/run/"):
            text = text.replace(folder, f"{self.root}{folder}")
        path = f"{self.root}/bin:/usr/bin:/bin"
        subprocess.run(["sh", "-s", *args], input=text, text=True, check=True, env={"PATH": path}, timeout=60)

    def called(self) -> str:
        path = self.root / "called"
        return path.read_text() if path.exists() else ""


RESTART = "systemctl --no-block restart nodemanager.service"
START = "deb-systemd-invoke start nodemanager.service"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param("active", RESTART, id="active"),
        # Its first pass may be what runs us. To start it would wait for it, and keep the old program.
        pytest.param("activating", RESTART, id="activating"),
        pytest.param("reloading", RESTART, id="reloading"),
        pytest.param("deactivating", RESTART, id="deactivating"),
        pytest.param("inactive", START, id="inactive"),
        pytest.param("failed", START, id="failed"),
    ],
)
def test_an_upgrade_leaves_no_old_agent_running(state: str, expected: str, tmp_path: Path) -> None:
    host = Host(tmp_path)
    shown = f'if [ "$1" = show ]; then echo ActiveState={state}; exit; fi\n'
    scripts.write(tmp_path / "bin/systemctl", f'{shown}echo systemctl "$@" >> {tmp_path}/called\n')
    host.run("postinst", "configure", "1.0")
    assert [line for line in (RESTART, START) if line in host.called().splitlines()] == [expected]


def test_purging_the_agent_leaves_what_an_embedded_api_keeps(tmp_path: Path) -> None:
    host = Host(tmp_path)
    database = host.write("var/lib/nodemanager/server/state.db", "everything")
    for script, how in (("prerm", "remove"), ("postrm", "remove"), ("postrm", "purge")):
        host.run(script, how)
    assert database.read_text() == "everything"
    assert [path.exists() for path in host.mine] == [False] * len(host.mine)
    assert [path.name for path in (tmp_path / "var/lib/nodemanager").iterdir()] == ["server"]
    assert "deb-systemd-invoke stop nodemanager.service" in host.called()


def test_purging_leaves_nothing_where_there_is_no_embedded_api(tmp_path: Path) -> None:
    host = Host(tmp_path)
    outside = host.write("srv/kept/x")
    (tmp_path / "var/lib/nodemanager/link").symlink_to(outside.parent)
    host.run("postrm", "purge")
    host.run("postrm", "purge")
    assert not (tmp_path / "var/lib/nodemanager").exists()
    assert outside.exists()


def test_a_state_folder_that_is_a_link_is_not_emptied(tmp_path: Path) -> None:
    host = Host(tmp_path)
    (tmp_path / "var/lib/nodemanager").rename(tmp_path / "elsewhere")
    (tmp_path / "var/lib/nodemanager").symlink_to(tmp_path / "elsewhere")
    host.run("postrm", "purge")
    assert not (tmp_path / "var/lib/nodemanager").is_symlink()
    assert (tmp_path / "elsewhere/secrets").exists()


def test_the_agent_of_install_service_outlives_the_package(tmp_path: Path) -> None:
    host = Host(tmp_path)
    unit = "etc/systemd/system/nodemanager.service"
    host.write(
        unit, "[Service]\nExecStart=/usr/local/bin/nodemanager --kubeconfig /etc/nodemanager/kubeconfig\n"
    )
    for script, how in (("prerm", "remove"), ("postrm", "remove"), ("postrm", "purge")):
        host.run(script, how)
    assert [path.exists() for path in host.mine] == [True] * len(host.mine)
    assert "stop" not in host.called()
