"""What is in the packages of a release, read as their package managers read them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import shutil
import subprocess
import tarfile
from pathlib import Path
from urllib.parse import unquote

import pytest
from tools.packages import apk, contents, formats, freebsd, rpm, tarball
from tools.packages.contents import CannotBuild, Program
from tools.release.targets import TARGETS

from support import cli, scripts

CONTENT = b"\x7fELF, or so"
EPOCH = 1700000000
LICENCES = {"thing-1.LICENSE": b"do as you like\n"}
TOOLS = ("dpkg-deb", "rpmbuild")
needs_tools = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in TOOLS), reason=f"needs {' and '.join(TOOLS)}: dpkg and rpm"
)
needs_rpm = pytest.mark.skipif(shutil.which("rpmbuild") is None, reason="needs rpmbuild: install rpm")


def program(folder: Path, target: str, version: str = "1.2.3") -> Program:
    path = folder / "program"
    path.write_bytes(CONTENT)
    return Program(path, target, version, EPOCH, LICENCES)


@needs_tools
@pytest.mark.parametrize("target", TARGETS)
def test_the_same_program_gives_the_same_packages(target: str, tmp_path: Path) -> None:
    made = program(tmp_path, target)
    for build in formats.of(target):
        first, second = build(made, tmp_path / "a"), build(made, tmp_path / "b")
        assert first.name == second.name
        assert first.read_bytes() == second.read_bytes(), first.name
        assert str(tmp_path).encode() not in first.read_bytes()


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.2.3", "1.2.3"), ("1.2.3a1", "1.2.3~a1"), ("2.0b12", "2.0~b12"), ("1.0rc1", "1.0~rc1")],
)
def test_what_comes_before_a_release_is_older_than_it(version: str, expected: str) -> None:
    assert Program(Path("x"), "linux-amd64", version, 0).spelled("~a", "~b", "~rc") == expected


@pytest.mark.parametrize("version", ["", "v1", "1.2.dev3", "1-2", "1.2+local", "1..2"])
def test_a_version_that_a_format_cannot_have_is_refused(version: str) -> None:
    with pytest.raises(CannotBuild, match=f"version '{version.replace('+', '[+]')}' is none; write"):
        Program(Path("x"), "linux-amd64", version, 0).spelled("", "", "")


def members(data: bytes) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
    found = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            read = archive.extractfile(member)
            found[member.name] = (member, read.read() if read is not None else b"")
    return found


def check_owners(found: dict[str, tuple[tarfile.TarInfo, bytes]], group: str = "root") -> None:
    for name, (member, _) in found.items():
        assert (member.uname, member.gname, member.mtime) == ("root", group, EPOCH), name
        assert member.mode & 0o022 == 0, name


def test_apk_finds_its_facts_scripts_and_checksums(tmp_path: Path) -> None:
    package = apk.build(program(tmp_path, "linux-arm", "1.2rc1"), tmp_path)
    assert package.name == "nodemanager-1.2_rc1-r0.armv7.apk"
    data = package.read_bytes()
    found = members(gzip.decompress(data))
    check_owners(found)
    facts = dict(line.split(" = ", 1) for line in found[".PKGINFO"][1].decode().splitlines())
    assert (facts["pkgname"], facts["pkgver"], facts["arch"]) == ("nodemanager", "1.2_rc1-r0", "armv7")
    second = data.index(b"\x1f\x8b\x08", 3)  # where the archive of the files begins
    assert facts["datahash"] == hashlib.sha256(data[second:]).hexdigest()
    assert gzip.decompress(data[:second])[-1024:] != bytes(1024), "apk would stop reading here"
    for name, (member, content) in found.items():
        if member.isfile() and not name.startswith("."):
            assert member.pax_headers[apk.CHECKSUM] == hashlib.sha1(content).hexdigest()
    for name in (".post-upgrade", ".pre-deinstall"):
        subprocess.run(["sh", "-n"], input=found[name][1], check=True, timeout=60)
    assert b"supervise-daemon" in found["etc/init.d/nodemanager"][1]
    assert found["etc/init.d/nodemanager"][0].mode == 0o755
    assert b'command="/usr/bin/nodemanager"' in found["etc/init.d/nodemanager"][1]


def test_pkg_finds_its_manifest_first_and_every_file_in_it(tmp_path: Path) -> None:
    package = freebsd.build(program(tmp_path, "freebsd-arm64"), tmp_path)
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(package.read_bytes()))) as archive:
        names = archive.getnames()
    assert names[:2] == ["+COMPACT_MANIFEST", "+MANIFEST"]
    found = members(lzma.decompress(package.read_bytes()))
    check_owners(found, "wheel")
    manifest, compact = (json.loads(found[name][1]) for name in ("+MANIFEST", "+COMPACT_MANIFEST"))
    assert manifest["abi"] == "FreeBSD:14:aarch64"
    assert compact == {key: value for key, value in manifest.items() if key not in ("files", "scripts")}
    assert [f"/{path.lstrip('/')}" for path in names[2:]] == list(manifest["files"])
    for name in names[2:]:
        digest = hashlib.sha256(found[name][1]).hexdigest()
        assert manifest["files"][f"/{name.lstrip('/')}"] == f"1${digest}"
    assert "/usr/local/etc/nodemanager/environment.sample" in manifest["files"]
    assert "/usr/local/etc/nodemanager/environment" not in manifest["files"]
    for name, script in manifest["scripts"].items():
        assert unquote(script) == (freebsd.SCRIPTS / name).read_text()  # pkg decodes it like an address
        subprocess.run(["sh", "-n"], input=unquote(script), text=True, check=True, timeout=60)


class FreeBsdHost:
    """A folder that stands for a host, for scripts of the package."""

    def __init__(self, root: Path) -> None:
        self.flags = root / "usr/local/etc/nodemanager/environment"
        self.flags.parent.mkdir(parents=True)
        self.flags.with_name("environment.sample").write_text("#NAMESPACE=\n")
        self.root = root

    def run(self, script: str, **variables: str) -> None:
        environ = {"PATH": "/usr/bin:/bin", "PKG_ROOTDIR": str(self.root), **variables}
        text = (freebsd.SCRIPTS / script).read_text()
        subprocess.run(["sh", "-e"], input=text, text=True, env=environ, check=True, timeout=60)


def test_flags_that_somebody_set_on_freebsd_stay(tmp_path: Path) -> None:
    host = FreeBsdHost(tmp_path)
    host.run("post-install")
    assert host.flags.read_text() == "#NAMESPACE=\n"
    host.flags.write_text("NAMESPACE=x\n")
    host.run("pre-deinstall", PKG_UPGRADE="true")
    host.run("post-install", PKG_UPGRADE="true")
    host.run("pre-deinstall")
    assert host.flags.read_text() == "NAMESPACE=x\n"
    host.flags.write_text("#NAMESPACE=\n")
    host.run("pre-deinstall", PKG_UPGRADE="true")
    assert host.flags.exists()
    host.run("pre-deinstall")
    assert not host.flags.exists()


def test_an_upgrade_on_freebsd_starts_nothing_that_pkg_would_kill(tmp_path: Path) -> None:
    """pkg kills all that a script leaves behind: the agent's own daemon(8) has to start the new one."""
    called = tmp_path / "called"
    (tmp_path / "bin").mkdir()
    for name in ("service", "pkill", "cp"):
        scripts.write(tmp_path / "bin" / name, f'echo {name} "$@" >> {called}\n')
    text = (freebsd.SCRIPTS / "post-install").read_text()
    environ = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "PKG_UPGRADE": "true"}
    subprocess.run(["sh", "-e"], input=text, text=True, env=environ, check=True, timeout=10)
    assert [line for line in called.read_text().splitlines() if not line.startswith("cp ")] == [
        "service nodemanager onestatus", "pkill -TERM -F /var/run/nodemanager-agent.pid",
    ]  # fmt: skip
    assert not [line for line in text.splitlines() if line.rstrip().endswith("&")]
    rc = freebsd.LAYOUT.service_text()
    assert 'agent_pidfile="/var/run/nodemanager-agent.pid"' in rc
    assert " -R 10 " in rc  # who starts it again


@pytest.mark.parametrize("state", ["failed", "active"])
def test_an_upgrade_by_rpm_starts_an_agent_that_was_given_up(state: str, tmp_path: Path) -> None:
    said = rpm.SPEC.read_text().partition("\n%post\n")[2].partition("\n%preun\n")[0]
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    called = tmp_path / "called"
    (tmp_path / "bin").mkdir()
    failed = f'if [ "$2" = is-failed ]; then [ {state} = failed ]; exit; fi\n'
    scripts.write(tmp_path / "bin/systemctl", f'{failed}echo "$@" >> {called}\n')
    script = said.replace("/run/", f"{tmp_path}/run/").replace("/etc/", f"{tmp_path}/etc/")
    environ = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    subprocess.run(["sh", "-s", "2"], input=script, text=True, env=environ, check=True, timeout=10)
    verb = "start" if state == "failed" else "try-restart"
    assert called.read_text().splitlines() == ["daemon-reload", f"--no-block {verb} nodemanager.service"]


@pytest.mark.parametrize("target", ["linux-amd64", "freebsd-amd64"])
def test_a_tar_is_unpacked_below_usr_local(target: str, tmp_path: Path) -> None:
    package = tarball.build(program(tmp_path, target), tmp_path)
    found = members(gzip.decompress(package.read_bytes()))
    top = f"nodemanager-1.2.3-{target}"
    assert {name.partition("/")[0] for name in found} == {top}
    assert found[f"{top}/bin/nodemanager"][1] == CONTENT
    assert found[f"{top}/share/licenses/nodemanager/thing-1.LICENSE"][1] == LICENCES["thing-1.LICENSE"]
    assert (
        b"ExecStart=/usr/local/bin/nodemanager " in found[f"{top}/share/nodemanager/nodemanager.service"][1]
    )
    assert {f"{top}/share/nodemanager/{name}" for name in tarball.NAMES.values()} <= found.keys()


@needs_rpm
def test_rpm_knows_what_is_configuration_and_needs_nothing_but_a_shell(tmp_path: Path) -> None:
    package = rpm.build(program(tmp_path, "linux-arm64", "1.2rc1"), tmp_path)
    assert package.name == "nodemanager-1.2~rc1-1.aarch64.rpm"

    def ask(*argv: str) -> list[str]:
        done = subprocess.run(
            ["rpm", "-qp", *argv, str(package)], capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout.splitlines()

    assert ask("--configfiles") == ["/etc/default/nodemanager"]
    assert ask("--licensefiles") == ["/usr/share/licenses/nodemanager/thing-1.LICENSE"]
    assert {line.split("(")[0] for line in ask("--requires")} <= {"/bin/sh", "rpmlib"}
    facts = "%{ARCH} %{BUILDHOST} %{BUILDTIME} %{PAYLOADCOMPRESSOR}"
    assert ask("--queryformat", facts) == [f"aarch64 localhost {EPOCH} xz"]
    listed = ask("--queryformat", "[%{FILENAMES} %{FILEMODES:octal} %{FILEUSERNAME} %{FILEMTIMES}\n]")
    modes = {line.split()[0]: line.split()[1:] for line in listed}
    assert modes.pop("/usr/bin/nodemanager") == ["100755", "root", str(EPOCH)]
    assert {tuple(rest) for rest in modes.values()} == {("100644", "root", str(EPOCH))}


@pytest.mark.parametrize("layout", [apk.LAYOUT, rpm.LAYOUT, freebsd.LAYOUT], ids=["apk", "rpm", "pkg"])
def test_every_package_has_service_flags_completion_and_manuals(
    layout: contents.Layout, tmp_path: Path
) -> None:
    files = layout.files(program(tmp_path, "linux-amd64"))
    assert files[layout.program] == (CONTENT, 0o755)
    assert f"/{layout.program}" in files[layout.service][0].decode()
    assert contents.WRITTEN in files[layout.service][0].decode()
    assert files[layout.init.environment.lstrip("/")][0].decode() == layout.init.variables()
    for shell, path in layout.completions().items():
        assert files[path][0].decode() == cli.run("completion", shell).stdout
    assert f"{layout.manuals}/nodemanager-get.8.gz" in files
