"""`nodemanager status` on a real host, in good times and bad ones; the captures of the docs are made here."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fleet import until
from support.source_host import SourceHost, unit

PAGE = Path(__file__).parents[2] / "docs/status.md"
NAME = "web1"
SERVICE = "[Service]\nExecStart=/bin/sleep inf\n[Install]\nWantedBy=multi-user.target\n"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SourceHost]:
    with SourceHost.up(tmp_path_factory.mktemp("host"), NAME) as host:
        host.machine.write("/etc/systemd/system/app.service", SERVICE)
        host.enroll(unit(WatchdogSec="60"))
        host.api.config_set(
            "base", host.name, files=[{"path": "/etc/motd", "content": "Managed by nodemanager.\n"}]
        )
        host.api.config_set(
            "web",
            host.name,
            files=[
                {"path": "/etc/app", "ensure": "directory"},
                {"path": "/etc/app/app.conf", "content": "workers=4\n"},
            ],
            services=[
                {"name": "app", "ensure": "running", "enable": True, "subscribe_files": ["/etc/app/app.conf"]}
            ],
        )
        host.converge("base")
        host.converge("web")
        yield host


def well(host: SourceHost) -> str:
    """Return what it says of a host that is well, on which something has just been put back."""
    before = json.loads(host.nodemanager("status", "-o", "json", check=False).stdout)["drift"]["repaired"]
    with host.machine.by_hand("echo quick fix > /etc/motd"):
        host.look_again()
        until(lambda: _told(host)["drift"]["repaired"] > before and _told(host)["holds"], "a repair")
    until(lambda: _told(host)["api"]["state"] == "connected", "an API that answers")
    done = host.nodemanager("status")
    assert done.returncode == 0
    return done.stdout


def in_trouble(host: SourceHost) -> str:
    """Return what it says of a host whose API is gone, and on which something cannot be."""
    host.api.config_set("broken", host.name, files=[{"path": "/etc/motd/x", "content": "x"}])
    until(lambda: not _told(host)["holds"], "a failure")
    host.machine.run("ip", "link", "set", "dev", _device(host), "down")
    try:
        until(lambda: _told(host)["api"]["state"] == "alone", "nobody to answer")
        done = host.nodemanager("status", check=False)
        assert done.returncode == 2
        return done.stdout
    finally:
        host.machine.run("ip", "link", "set", "dev", _device(host), "up")
        host.api.delete("ConfigSet", "broken")
        until(lambda: _told(host)["holds"] and _told(host)["api"]["state"] == "connected", "good times", 120)


def stopped(host: SourceHost) -> str:
    """Return what it says where no agent runs."""
    host.machine.run("systemctl", "stop", "nodemanager")
    try:
        done = host.nodemanager("status", check=False)
        assert done.returncode == 1
        return done.stdout + done.stderr
    finally:
        host.machine.run("systemctl", "start", "nodemanager")


def _told(host: SourceHost) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads(
        host.nodemanager("status", "-o", "json", check=False).stdout
    )
    return found


def _device(host: SourceHost) -> str:
    listed = json.loads(host.machine.run("ip", "-json", "link").stdout)
    return next(str(one["ifname"]) for one in listed if one["ifname"] != "lo").partition("@")[0]


def neutral(text: str) -> str:
    """Return a capture without what differs from run to run, and would say where it was made."""
    text = re.sub(r"https://[0-9.]+:[0-9]+", "https://10.0.0.1:6443", text)
    text = text.replace("python3 -m nodemanager", "nodemanager")  # as a user has it
    return "\n".join(line.rstrip() for line in text.splitlines())


def shape(text: str) -> list[str]:
    """Return what a capture says, to compare it with another: without numbers, and like rows once."""
    found = []
    for line in text.splitlines():
        words = re.sub(r"(cannot reach|the API did not answer) .*", "no API", re.sub(r"\s+", " ", line))
        found.append(re.sub(r"[-0-9][-0-9.:TZ]*[dhms0-9]*", "N", words))
    return list(dict.fromkeys(found))


def test_the_captures_of_the_docs_are_what_a_real_host_says(host: SourceHost) -> None:
    """Written anew with NODEMANAGER_CAPTURE=1; otherwise compared, all but numbers."""
    page = PAGE.read_text()
    for name, capture in (("well", well), ("in trouble", in_trouble), ("stopped", stopped)):
        said = neutral(capture(host))
        pattern = re.compile(rf"(<!-- capture: {name} -->\n```text\n)(.*?)(\n```)", re.DOTALL)
        found = pattern.search(page)
        assert found is not None, f"no place for the capture {name} in {PAGE.name}"
        shown = found[2].partition("\n")[2]  # below the command
        if os.environ.get("NODEMANAGER_CAPTURE"):
            command = found[2].partition("\n")[0]
            page = page.replace(found[0], f"{found[1]}{command}\n{said}{found[3]}")
            PAGE.write_text(page)
        else:
            assert shape(shown) == shape(said), said


def test_systemd_shows_the_same_in_one_line(host: SourceHost) -> None:
    well(host)
    line = r'Status: "2 ConfigSets, 4 resources: all as declared; last drift .* API connected"'
    until(  # it is told at most once a second
        lambda: re.search(line, host.machine.run("systemctl", "status", "nodemanager").stdout),
        "the line of systemctl status",
    )


def test_the_socket_is_root_s_alone_and_a_user_is_told_so(host: SourceHost) -> None:
    assert host.stat("/run/nodemanager/agent.sock") == "root root 600"
    assert host.stat("/run/nodemanager") == "root root 700"
    done = host.machine.run(
        "setpriv", "--reuid=nobody", "--clear-groups", "env", "PYTHONDONTWRITEBYTECODE=1",
        "PYTHONPATH=/opt/nodemanager/src:/opt/nodemanager/site", "python3", "-m", "nodemanager", "status",
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "only root may; run it with sudo" in done.stderr


def test_a_terminal_is_redrawn_and_a_pipe_gets_one_after_the_other(host: SourceHost) -> None:
    watch = "python3 -m nodemanager status --watch"
    environ = "export PYTHONPATH=/opt/nodemanager/src:/opt/nodemanager/site TERM=xterm;"
    commands = {"terminal": f"script -qec '{watch}' /dev/null", "pipe": f"{watch} | cat"}
    watching = [
        host.machine.popen("sh", "-c", f"{environ} exec timeout 900 {command} > /run/{name}.shown")
        for name, command in commands.items()
    ]

    def drawn() -> tuple[int, int]:
        shown, appended = host.text("/run/terminal.shown"), host.text("/run/pipe.shown")
        return shown.count("\x1b[H\x1b[J"), appended.count("State:        as declared\n")

    try:
        for count in range(1, 4):
            until(lambda count=count: min(drawn()) >= count, f"that both show it {count} times")  # type: ignore[misc]
            well(host)
    finally:
        host.machine.run("pkill", "-TERM", "timeout")
        for one in watching:
            one.communicate(timeout=60)
    assert "\x1b[32mas declared\x1b[0m" in host.text("/run/terminal.shown")
    assert "\x1b" not in host.text("/run/pipe.shown")
