"""`nodemanager plan` on a host that joined, with the real apt and systemd: what it says comes to be."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from support.fleet import Fleet, Host, apt_repository, until

UNIT = "[Service]\nExecStart=/bin/sleep inf\n[Install]\nWantedBy=multi-user.target\n"
OWN = "[Service]\nExecStart=/bin/sleep inf\n"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host with a clock of its own and indexes that know of another one; its agent is stopped."""
    folder = tmp_path_factory.mktemp("fleet")
    with apt_repository(folder / "apt") as repository:
        repository.publish("nm-timesync", "1.0-1")
        repository.publish("nm-chrony", "1.0-1", fields="Conflicts: nm-timesync\n")
        repository.publish("nm-web", "1.0-1", files={"/lib/systemd/system/nm-web.service": UNIT})
    with Fleet.up(folder, "web", repository=repository.repo) as fleet:
        found = fleet["web"]
        found.machine.run("apt-get", "update")
        found.machine.run("apt-get", "-y", "install", "nm-timesync")
        found.join()
        until(lambda: found.status().get("release"), "a report of its agent")
        found.machine.run("systemctl", "stop", "nodemanager")
        yield found


@contextlib.contextmanager
def at_work(host: Host) -> Iterator[None]:
    """Have the agent run for a while; whatever happens, it is stopped again, as all tests here expect it."""
    host.machine.run("systemctl", "start", "nodemanager")
    try:
        yield
    finally:
        host.machine.run("systemctl", "stop", "nodemanager")


def plan(host: Host, *words: str) -> tuple[int, dict[str, str], str]:
    """Return the exit code, what is said of each resource, and what went to stderr."""
    done = host.machine.run(*words, "nodemanager", "plan", "--hostname", host.name, check=False)
    lines = dict(line.split("  ", 1) for line in done.stdout.splitlines() if ":" in line.split("  ")[0])
    return done.returncode, lines, done.stderr


def test_it_counts_what_comes_before_and_holds_what_it_says(host: Host) -> None:
    host.api.config_set(
        "web", host.name,
        packages=[{"name": "nm-web"}],
        files=[{"path": "/etc/systemd/system/nm-own.service", "content": OWN}],
        services=[
            {"name": "nm-web", "ensure": "running", "enable": True},
            {"name": "nm-own", "ensure": "running"},
        ],
    )  # fmt: skip
    code, said, _ = plan(host)
    assert code == 2
    assert said["package:nm-web"] == "install: is not installed"
    assert said["service:nm-web"] == (
        "will start: it is not there yet; package nm-web, above, is expected to bring it"
    )
    assert said["service:nm-own"] == (
        "will start: it is not there yet; /etc/systemd/system/nm-own.service, above, is expected to bring it"
    )
    with at_work(host):
        host.converge("web")
    assert plan(host)[:2] == (0, {})


def test_names_and_conflicts_are_looked_up(host: Host) -> None:
    host.api.config_set("odd", host.name, packages=[{"name": "nm-chrony"}, {"name": "ngnixx"}])
    try:
        code, said, _ = plan(host)
        assert code == 1
        assert said["package:ngnixx"].startswith("cannot: cannot install ngnixx: no such package")
        assert said["package:nm-chrony"].startswith(
            "cannot: cannot install nm-chrony: nm-timesync would have to be removed for it; declare"
        )
        absent = {"name": "nm-timesync", "ensure": "absent"}
        host.api.config_set("odd", host.name, packages=[{"name": "nm-chrony"}, absent])
        code, said, _ = plan(host)
        assert code == 2
        assert said["package:nm-chrony"] == "install: is not installed"
        assert said["package:nm-timesync"] == "remove: 1.0-1 is installed"
    finally:
        host.api.delete("ConfigSet", "odd")


def test_what_keeps_the_agent_from_doing_so_is_said(host: Host) -> None:
    renamed = host.machine.run("nodemanager", "plan", "--hostname", "web9", check=False)
    assert (
        f"warning: this credential is of {host.name}, and this host is called web9; run with"
        in renamed.stderr
    )
    host.machine.run("nodemanager", "hold", "--reason", "night", "--for", "2h")
    try:
        with at_work(host):
            until(lambda: host.condition("Held") == "True", "the hold is reported")
        assert "warning: nothing of this is done before the end of the hold: night; held on" in plan(host)[2]
    finally:
        host.machine.run("nodemanager", "unhold")


@pytest.mark.parametrize("state", ["there", "none"])
def test_somebody_who_may_not_read_the_state_is_told_to_use_sudo(host: Host, state: str) -> None:
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/tmp")
    host.machine.run("mkdir", "-p", "-m", "0700", "/var/lib/nodemanager")
    if state == "none":  # the credential is refused then, not what the agent remembers
        host.machine.run("mv", "/var/lib/nodemanager", "/var/lib/aside")
    try:
        code, said, stderr = plan(host, *nobody)
    finally:
        if state == "none":
            host.machine.run("mv", "-T", "/var/lib/aside", "/var/lib/nodemanager")
    assert (code, said) == (1, {})
    assert stderr.rstrip().endswith("run it with sudo")
    assert "remove" not in stderr
