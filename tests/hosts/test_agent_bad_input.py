"""One real host with everything wrong on it: each mistake is reported by itself, the rest converges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.fleet import Fleet, Host, apt_repository, until

FAILING = "[Service]\nExecStart=/bin/sh -c 'echo no such database >&2; exit 3'\n"
GOOD = "[Service]\nExecStart=/bin/sleep inf\n[Install]\nWantedBy=multi-user.target\n"


@pytest.fixture(scope="module")
def shared_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A host with a read-only mount, a full one, an immutable file, and a unit that fails."""
    folder = tmp_path_factory.mktemp("fleet")
    with apt_repository(folder / "apt") as repository:
        repository.publish("nm-good", "1.0-1", files={"/lib/systemd/system/nm-good.service": GOOD})
    with Fleet.up(folder, "odd", repository=repository.repo) as fleet:
        run, write = fleet["odd"].machine.run, fleet["odd"].machine.write
        for path, options in (("/mnt/readonly", "ro"), ("/mnt/small", "size=64k")):
            run("mkdir", "-p", path)
            run("mount", "-t", "tmpfs", "-o", options, "tmpfs", path)
        write("/etc/immutable", "as it is\n")
        run("chattr", "+i", "/etc/immutable")
        write("/etc/systemd/system/nm-failing.service", FAILING)
        fleet["odd"].join()
        yield fleet


@pytest.fixture
def host(shared_fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Host]:
    """The host; what its agent wrote is printed when a test fails."""
    with shared_fleet.watched(request) as fleet:
        yield fleet["odd"]


BAD: dict[str, dict[str, Any]] = {
    "unit": {"services": [{"name": "nm-failing", "ensure": "running"}]},
    "package": {"packages": [{"name": "nm-does-not-exist", "ensure": "installed"}]},
    "readonly": {"files": [{"path": "/mnt/readonly/file", "content": "x"}]},
    "full": {"files": [{"path": "/mnt/small/file", "content": "x" * 100_000}]},
    "immutable": {"files": [{"path": "/etc/immutable", "content": "something else\n"}]},
    "user": {"files": [{"path": "/etc/of-nobody", "content": "x", "owner": "no-such-user"}]},
    "secret": {"files": [{"path": "/etc/token", "template": "x", "secretRefs": ["no-such-secret"]}]},
}
SAID = {
    "unit": ("service:nm-failing", "no such database", "systemctl status nm-failing"),
    "package": ("package:nm-does-not-exist", "nm-does-not-exist"),
    "readonly": ("file:/mnt/readonly/file", "read-only", "mount it writable"),
    "full": ("file:/mnt/small/file", "no space", "free"),
    "immutable": ("file:/etc/immutable", "immutable", "chattr -i"),
    "user": ("file:/etc/of-nobody", "no-such-user"),
    "secret": ("file:/etc/token", "no-such-secret"),
}


def test_each_mistake_is_told_with_its_remedy_and_the_rest_converges(host: Host) -> None:
    for name, spec in BAD.items():
        host.api.config_set(name, host.name, **spec)
    host.api.config_set(
        "zz-good", host.name,
        packages=[{"name": "nm-good", "ensure": "installed"}],
        files=[{"path": "/etc/good", "content": "good\n"}],
        services=[{"name": "nm-good", "ensure": "running", "enable": True}],
    )  # fmt: skip
    host.converge("zz-good")
    assert host.text("/etc/good") == "good\n"
    assert host.is_active("nm-good")
    said = {name: host.error(name) for name in BAD}
    for name, words in SAID.items():
        assert [word for word in words if word not in said[name].lower()] == [], said[name]
    assert host.condition("Ready") == "False"
    assert host.text("/etc/immutable") == "as it is\n"
    # What fails is tried again, and so something may be staged at this very moment; nothing of it stays.
    find = ("find", "/etc", "/mnt", "-name", ".nodemanager-*")
    until(lambda: host.machine.run(*find, check=False).stdout == "", "the end of what was staged")
    mend(host)


def mend(host: Host) -> None:
    """Do what the messages say, and see that this is enough."""
    run = host.machine.run
    run("mount", "-o", "remount,rw", "/mnt/readonly")
    run("mount", "-o", "remount,size=1m", "/mnt/small")
    run("chattr", "-i", "/etc/immutable")
    run("useradd", "--system", "no-such-user")
    host.machine.write("/etc/systemd/system/nm-failing.service", GOOD)
    host.api.secret("no-such-secret", token="x")
    host.api.delete("ConfigSet", "package")
    host.look_again()
    for name in BAD:
        if name != "package":
            host.converge(name)
    until(lambda: host.condition("Ready") == "True", "the host to be ready")
    assert host.text("/etc/immutable") == "something else\n"
