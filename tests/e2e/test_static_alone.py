"""What the static program takes of the machine it runs on: which files it opens, which variables it heeds."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import debian_packages, server_process, static_program
from support.agent_process import Agent, api_of, owned
from support.server_process import Server

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/03-secret-template"
CALLS = "trace=open,openat,openat2,execve"
FOREIGN = re.compile(
    r"\.(py|pyc|pyd|pth|so|cnf|egg|whl|zip)($|\.)|python|pyvenv|site-packages|/etc/ssl|/etc/pki|ld[.-](so|musl)"
)
"""Modules, libraries, and the configuration of Python and OpenSSL, wherever they are."""
OURS = re.compile(r"/etc/(localtime|passwd|group)|/(proc|sys|dev)/.*|/run/systemd/.*")
"""What a program may look at that wants to know the time, who it is, and what it runs on."""
PYTHON = ("PATH", "HOME", "STARTUP", "INSPECT", "PLATLIBDIR", "USERBASE", "PYCACHEPREFIX", "DEVMODE",
          "MALLOC", "WARNINGS", "HASHSEED", "BREAKPOINT", "EXECUTABLE", "SAFEPATH", "UTF8")  # fmt: skip


@pytest.fixture
def program() -> Path:
    found = static_program.find()
    debian_packages.ensure("openssl", "strace")
    return found


@pytest.fixture
def planted(tmp_path: Path) -> dict[str, str]:
    """Variables for Python and OpenSSL that lead to files which would be noticed."""
    folder = tmp_path / "planted"
    folder.mkdir()
    for name in ("nodemanager", "site", "sitecustomize", "usercustomize", "click", "encodings", "ssl"):
        (folder / f"{name}.py").write_text("raise SystemExit('planted')")
    (folder / "openssl.cnf").write_text("openssl_conf = none\nthis is not a configuration\n")
    python = {name: str(folder) for name in ("__PYVENV_LAUNCHER__", *(f"PYTHON{each}" for each in PYTHON))}
    openssl = {
        "OPENSSL_CONF": "openssl.cnf",
        "OPENSSL_MODULES": "",
        "OPENSSL_ENGINES": "",
        "SSLKEYLOGFILE": "keys",
    }
    return {**python, **{name: str(folder / path) for name, path in openssl.items()}}


def traced(program: Path, log: Path) -> tuple[str, ...]:
    """Return how to start it so that what it opens is written down; what is started is the program itself."""
    return ("strace", "-D", "-f", "-e", CALLS, "-s", "500", "-o", str(log), str(program))


def opened(log: Path, program: Path, *may: Path) -> list[str]:
    """Return what was opened, or tried, that is not its own affair, nor below one of these folders."""
    text = log.read_text()
    started = set(re.findall(r'execve\("([^"]*)"', text))
    assert started <= {str(program), "/proc/self/exe"}, started  # or what others open would be counted
    found = re.findall(r'open(?:at2?)?\((AT_FDCWD, |[0-9]+, )?"([^"]*)"', text)
    assert found
    foreign = [path for _, path in found if FOREIGN.search(path)]
    whole = [path for folder, path in found if path.startswith("/") or not folder[:1].isdigit()]
    below = tuple(str(one) for one in may)
    return foreign + [path for path in whole if not OURS.fullmatch(path) and not path.startswith(below)]


def test_what_it_brings_about_it_does_with_no_file_of_others(
    program: Path, tmp_path: Path, planted: dict[str, str]
) -> None:
    root, manifests, log = tmp_path / "root", tmp_path / "manifests", tmp_path / "trace"
    (root / "etc").mkdir(parents=True)
    shutil.copytree(EXAMPLE, manifests)
    argv = [*traced(program, log), "apply", "-f", str(manifests), "--root", str(root), "--hostname", "web1"]
    done = subprocess.run(
        argv, env={"PATH": "/usr/bin:/bin", **planted}, cwd=tmp_path,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "app.conf  changed" in done.stdout, done.stderr
    assert (root / "etc/app/app.conf").read_text() == "level = info\npassword = change-me\n"
    assert opened(log, program, root, manifests) == []


async def test_its_agent_starts_and_keeps_a_host_with_no_file_of_others(
    program: Path, tmp_path: Path, planted: dict[str, str]
) -> None:
    root, log = tmp_path / "root", tmp_path / "trace"
    (root / "run").mkdir(parents=True)
    with server_process.running(tmp_path / "server", first=True) as server:
        agent = Agent(root, "nodemanager", server.kubeconfig, argv=traced(program, log), environ=planted)
        try:
            async with api_of(server.kubeconfig, "nodemanager") as api:
                agent.start()
                await api.config_set(
                    "hello", files=[owned("/etc/hello", template='hello {{ (ds "data").Node.Name }}')]
                )
                await agent.reads("/etc/hello", "hello web1")
                await api.ready("hello")
            assert agent.stop() == 0
        finally:
            agent.end()
    assert opened(log, program, root, server.kubeconfig) == []
    assert not (tmp_path / "planted/keys").exists()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with server_process.running(tmp_path / "server") as server:
        yield server


def test_openssls_variables_say_whom_it_trusts_and_no_others_do(
    program: Path, tmp_path: Path, server: Server, planted: dict[str, str]
) -> None:
    """For a kubeconfig without an authority of its own; with one, nothing else is trusted."""
    authority = tmp_path / "authority.pem"
    authority.write_bytes(server.config().ca or b"")
    folder = tmp_path / "hashed"
    folder.mkdir()
    said = subprocess.run(
        ["openssl", "x509", "-hash", "-noout", "-in", str(authority)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    shutil.copy(authority, folder / f"{said.stdout.strip()}.0")
    bare = without_authority(server.kubeconfig, tmp_path / "kubeconfig")

    def asks(kubeconfig: Path, **environ: str) -> str:
        done = subprocess.run(
            [program, "get", "configsets", "--kubeconfig", str(kubeconfig)],
            env={"PATH": "/usr/bin:/bin", **environ},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return "" if done.returncode == 0 else done.stderr

    assert "self-signed certificate in certificate chain" in asks(bare, **planted)
    assert asks(bare, **planted, SSL_CERT_FILE=str(authority)) == ""
    assert asks(bare, **planted, SSL_CERT_DIR=str(folder)) == ""
    none = str(tmp_path / "none")
    assert "self-signed certificate in certificate chain" in asks(bare, SSL_CERT_FILE=none, SSL_CERT_DIR=none)
    assert asks(server.kubeconfig, **planted, SSL_CERT_FILE=none, SSL_CERT_DIR=none) == ""


def without_authority(kubeconfig: Path, target: Path) -> Path:
    """Write a kubeconfig that trusts whom the system trusts."""
    text = kubeconfig.read_text()
    if text.startswith("{"):
        found = json.loads(text)
        for cluster in found["clusters"]:
            cluster["cluster"].pop("certificate-authority-data", None)
        text = json.dumps(found)
    else:
        text = re.sub(r"^\s*certificate-authority(-data)?:.*\n", "", text, flags=re.MULTILINE)
    target.write_text(text)
    target.chmod(0o600)
    return target
