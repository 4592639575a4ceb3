"""OpenRC, rc.d and a systemd that does not run: argv and parsers, with output that was captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.host.base import NotSupported, ServiceKey, ServiceManager, ToolFailed
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory.identity import Identity
from nodemanager.host.process import runner
from nodemanager.host.services import openrc, rcd, systemctl
from nodemanager.host.services.choose import choose

SHOW = b"""              cgroups |                                              sysinit
                 dbus |      default
           hwclock.sh |                                              sysinit
            savecache |                        off
"""
DESCRIBE = b""" * reload: Reads its files again
 * cgroup_cleanup: Kill all processes in the cgroup
 * No description for nap
 * healthcheck: no description
"""
KEY = ServiceKey("x")


class Script:
    """Programs that say what they are told to; anything else ends with 0 and silence."""

    def __init__(self, answers: Mapping[str, tuple[int, bytes] | list[tuple[int, bytes]]]) -> None:
        self.answers = dict(answers)
        self.ran: list[str] = []

    async def __call__(self, argv: Sequence[str], **_: Any) -> runner.Completed:
        line = " ".join(argv)
        self.ran.append(line)
        answer = self.answers.get(line, (0, b""))
        if isinstance(answer, list):
            answer = answer.pop(0)
        return runner.Completed(tuple(argv), answer[0], answer[1], b"" if answer[0] == 0 else answer[1])


def test_runlevels_of_openrc() -> None:
    levels = openrc.parse_show(SHOW)
    assert levels["dbus"] == ("default",)
    assert openrc.boot_levels(levels, "dbus") == {"default"}
    assert openrc.boot_levels(levels, "cgroups") == {"sysinit"}
    assert openrc.boot_levels(levels, "savecache") == frozenset()
    assert openrc.boot_levels(levels, "nothing") == frozenset()
    assert "reload" in openrc.parse_describe(DESCRIBE)
    assert "reload" not in openrc.parse_describe(b" * No description for nap\n")


@given(st.binary(max_size=200))
def test_parsers_take_anything(output: bytes) -> None:
    openrc.parse_show(output)
    openrc.parse_describe(output)
    rcd.parse_list(output)
    systemctl.parse_is_enabled(runner.Completed((), 1, output, output))


@pytest.mark.parametrize(
    ("status", "running", "unsettled", "state"),
    [
        (0, True, False, "started"), (3, False, False, "stopped"), (4, False, True, "stopping"),
        (8, False, True, "starting"), (16, True, False, "inactive"), (32, False, False, "crashed"),
    ],
)  # fmt: skip
async def test_exit_statuses_of_openrc(status: int, running: bool, unsettled: bool, state: str) -> None:
    run = Script({"rc-service --nocolor x status": (status, b""), "rc-update show": (0, SHOW)})
    fact = (await openrc.OpenRC(run, 0.0).observe([KEY]))[KEY]
    assert (fact.running, fact.unsettled, fact.state, fact.enabled) == (running, unsettled, state, False)


async def test_openrc_that_says_something_new() -> None:
    run = Script({"rc-service --nocolor x status": (77, b"who knows")})
    assert "who knows" in (await openrc.OpenRC(run, 0.0).observe([KEY]))[KEY].error


@given(st.from_regex(r"[a-zA-Z0-9_.@-]{1,20}", fullmatch=True))
def test_variables_of_rc_are_names_for_a_shell(name: str) -> None:
    assert rcd.variable(name).isidentifier()
    assert rcd.variable(rcd.variable(name)) == rcd.variable(name)


def test_commands_of_rc() -> None:
    assert rcd.enable_argv("php-fpm", enabled=True) == [
        "sysrc", "-f", "/etc/rc.conf.d/php_fpm", "php_fpm_enable=YES"
    ]  # fmt: skip
    assert rcd.arguments_argv("sshd", "-o 'A b'")[-1] == "sshd_args=-o 'A b'"


async def test_rc_starts_what_is_not_enabled() -> None:
    run = Script(
        {
            "service -l": (0, b"cleanvar\nx\n"),
            "service x enabled": (1, b""), "service x onestatus": (1, b""),
            "sysrc -i -n -f /etc/rc.conf.d/x x_args": (0, b"-v\n"),
        }
    )  # fmt: skip
    manager = rcd.RcD(run, 0.0)
    fact = (await manager.observe([KEY, ServiceKey("y")]))[KEY]
    assert (fact.known, fact.running, fact.enabled, fact.arguments) == (True, False, False, "-v")
    with pytest.raises(ToolFailed, match="cannot start x: it started and exited"):
        await manager.start(KEY)
    assert "service x onestart" in run.ran
    run.answers["service x onestatus"] = (0, b"x is running as pid 7.\n")
    await manager.start(KEY)
    with pytest.raises(ToolFailed, match="cannot stop x: it still runs"):
        await manager.stop(KEY)


async def test_rc_restarts_what_cannot_reload() -> None:
    usage = b"/etc/rc.d/x: unknown directive 'onereload'.\nUsage: /etc/rc.d/x [start|stop|restart]"
    run = Script({"service x onereload": (1, usage)})
    await rcd.RcD(run, 0.0).reload(KEY)
    assert "service x onerestart" in run.ran
    run = Script({"service x onereload": (1, b"x: bad configuration")})
    with pytest.raises(ToolFailed, match="bad configuration"):
        await rcd.RcD(run, 0.0).reload(KEY)
    assert "service x onerestart" not in run.ran


@pytest.mark.parametrize(
    ("status", "output", "known", "enabled", "state"),
    [
        (0, b"enabled\n", True, True, "not running"), (1, b"disabled\n", True, False, "not running"),
        (0, b"static\n", True, None, "not running"), (1, b"masked\n", True, False, "masked"),
        (4, b"not-found\n", False, None, "not-found"),
    ],
)  # fmt: skip
async def test_units_of_an_image(
    status: int, output: bytes, known: bool, enabled: bool | None, state: str
) -> None:
    run = Script({"systemctl --no-pager is-enabled -- x.service": (status, output)})
    fact = (await systemctl.OfflineSystemd(run).observe([KEY]))[KEY]
    assert (fact.known, fact.enabled, fact.state, fact.error) == (known, enabled, state, "")


@pytest.mark.parametrize("verb", ["start", "stop", "restart", "reload"])
async def test_nothing_starts_in_a_root_that_is_not_booted(verb: str) -> None:
    run = Script({})
    managers: list[ServiceManager] = [
        systemctl.OfflineSystemd(run), openrc.OpenRC(run, 0.0, booted=False), rcd.RcD(run, 0.0, booted=False)
    ]  # fmt: skip
    for manager in managers:
        with pytest.raises(NotSupported, match="does not run in this root"):
            await getattr(manager, verb)(KEY)
    assert run.ran == []


def identity(system: str = "linux") -> Identity:
    return Identity("h", system, (), system, "x86_64", "1")


@pytest.mark.parametrize(
    ("file", "system", "name"),
    [
        ("usr/lib/systemd/systemd", "linux", "systemd (not running)"), ("sbin/openrc-run", "linux", "OpenRC"),
        ("etc/rc.subr", "freebsd", "rc.d"), ("etc/nothing", "linux", None),
    ],
)  # fmt: skip
def test_the_service_manager_of_a_root(tmp_path: Path, file: str, system: str, name: str | None) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).touch()
    (tmp_path / "run/systemd/system").mkdir(parents=True)  # left behind; nothing runs in a root
    tree = Tree(str(tmp_path))
    found = choose(tree, identity(system), Script({}), 0.0)
    assert (found.name if found else None) == name
    tree.close()
