"""The systemd adapter, in machines that systemd runs."""

from __future__ import annotations

import pytest

from support.host_services import Services
from support.nspawn import Machine

UNITS = "/etc/systemd/system"
SLEEPS = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"


@pytest.fixture
def services(machine: Machine) -> Services:
    return Services(machine)


def shell(script: str, *settings: str) -> str:
    return "\n".join(("[Service]", *settings, f"ExecStart=/bin/sh -c '{script}'", ""))


def unit(machine: Machine, name: str, text: str = SLEEPS) -> None:
    machine.write(f"{UNITS}/{name}", text)


def active(machine: Machine, name: str) -> str:
    return machine.run("systemctl", "is-active", name, check=False).stdout.strip()


def test_a_service_is_started_enabled_stopped_and_disabled(machine: Machine, services: Services) -> None:
    unit(machine, "life.service")
    fact = services.look("life")
    assert (fact.known, fact.running, fact.enabled, fact.state) == (True, False, False, "inactive (dead)")
    assert services.do("start", "life") == ""
    assert services.do("enable", "life") == ""
    assert active(machine, "life") == "active"
    assert machine.run("systemctl", "is-enabled", "life").stdout == "enabled\n"
    fact = services.look("life.service")
    assert (fact.running, fact.enabled, fact.state, fact.stale) == (True, True, "active (running)", True)
    assert services.do("refresh") == ""
    assert services.look("life.service").stale is False
    first = machine.run("systemctl", "show", "-P", "MainPID", "life").stdout
    assert services.do("restart", "life") == ""
    assert machine.run("systemctl", "show", "-P", "MainPID", "life").stdout != first
    assert services.do("stop", "life") == ""
    assert services.do("disable", "life") == ""
    assert active(machine, "life") == "inactive"
    assert services.look("life").enabled is False


def test_what_is_not_there_and_what_is_masked(machine: Machine, services: Services) -> None:
    unit(machine, "forbidden.service")
    machine.run("systemctl", "mask", "--runtime", "forbidden.service")
    machine.run("ln", "-s", "/dev/null", f"{UNITS}/forbidden2.service")
    gone, runtime, masked, odd = services.look_all(
        ("nothing-of-the-kind", ""), ("forbidden", ""), ("forbidden2", ""), ("a b", "")
    )
    assert (gone.known, gone.error) == (False, "")
    assert runtime.known
    assert (masked.known, masked.state) == (True, "masked")
    assert "no name for a unit" in odd.error
    assert "masked" in services.do("start", "forbidden2")
    assert "nothing-of-the-kind.service" in services.do("start", "nothing-of-the-kind")


def test_a_unit_that_fails_says_why(machine: Machine, services: Services) -> None:
    unit(machine, "broken.service", shell("echo no coffee left; sleep 0.1; exit 3"))
    error = services.do("start", "broken")
    assert error.startswith("cannot start broken.service: it started and exited (exit status 3)"), error
    assert "no coffee left" in error
    assert "run systemctl status broken.service" in error
    fact = services.look("broken")
    assert (fact.running, fact.state, fact.enabled) == (False, "failed", None)


def test_a_start_that_fails_within_its_job(machine: Machine, services: Services) -> None:
    unit(machine, "stillborn.service", shell("echo sorry >&2; exit 4", "Type=oneshot"))
    error = services.do("start", "stillborn")
    assert error.startswith("cannot start stillborn.service: it failed (exit status 4), and is failed"), error
    assert "sorry" in error


def test_a_service_that_dies_later_did_not_start(machine: Machine, services: Services) -> None:
    unit(machine, "brief.service", "[Service]\nExecStart=/bin/sleep 0.3\n")
    assert "it started and exited, and is inactive (dead) now" in services.do("start", "brief", delay=5.0)


def test_one_that_had_to_be_started_again_is_seen_even_while_it_is_up(
    machine: Machine, services: Services
) -> None:
    script = "test -e /run/second && exec sleep infinity; touch /run/second; sleep 1"
    unit(machine, "loop.service", shell(script, "Restart=always", "RestartSec=10ms"))
    assert "it started and exited" in services.do("start", "loop", delay=8.0)
    assert active(machine, "loop") == "active"
    assert services.do("stop", "loop") == ""
    assert active(machine, "loop") == "inactive"


def test_waiting_to_be_started_again_is_neither_running_nor_stopped(
    machine: Machine, services: Services
) -> None:
    unit(machine, "again.service", "[Service]\nExecStart=/bin/false\nRestart=always\nRestartSec=600\n")
    assert "it started and exited" in services.do("start", "again")
    fact = services.look("again")
    assert (fact.running, fact.unsettled, fact.state) == (False, True, "activating (auto-restart)")
    assert services.do("stop", "again") == ""
    assert services.look("again").unsettled is False


def test_started_too_often_is_no_reason_not_to_start(machine: Machine, services: Services) -> None:
    limit = "[Unit]\nStartLimitIntervalSec=600\nStartLimitBurst=1\n"
    text = limit + shell("test -e /run/ok && exec sleep infinity")
    unit(machine, "often.service", text)
    machine.run("rm", "-f", "/run/ok")
    assert services.do("start", "often")
    machine.run("touch", "/run/ok")
    assert machine.run("systemctl", "start", "often", check=False).returncode != 0
    assert services.do("start", "often") == ""
    assert active(machine, "often") == "active"


def test_a_changed_unit_file_is_stale_until_refreshed(machine: Machine, services: Services) -> None:
    unit(machine, "stale.service")
    assert services.do("start", "stale") == ""
    assert services.look("stale").stale is False
    unit(machine, "stale.service", SLEEPS.replace("infinity", "12345"))
    assert services.look("stale").stale is True
    assert services.do("refresh") == ""
    assert services.look("stale").stale is False
    assert services.do("restart", "stale") == ""
    assert "12345" in machine.run("systemctl", "status", "stale").stdout


def test_a_new_drop_in_makes_it_stale(machine: Machine, services: Services) -> None:
    unit(machine, "dropped.service")
    assert services.do("start", "dropped") == ""
    machine.write(f"{UNITS}/dropped.service.d/x.conf", "[Service]\nNice=5\n")
    assert services.look("dropped").stale is True
    assert services.do("refresh") == ""
    assert services.look("dropped").stale is False


def test_a_unit_file_that_goes_before_one_of_a_package_makes_it_stale(
    machine: Machine, services: Services
) -> None:
    machine.write("/usr/lib/systemd/system/packaged.service", SLEEPS)
    assert services.do("start", "packaged") == ""
    assert services.look("packaged").stale is False
    unit(machine, "packaged.service")
    assert services.look("packaged").stale is True
    assert services.do("refresh") == ""
    assert services.look("packaged").stale is False


def test_conditions_that_are_not_met_are_named(machine: Machine, services: Services) -> None:
    unit(machine, "if.service", "[Unit]\nConditionPathExists=/nothing\n" + SLEEPS)
    machine.write(f"{UNITS}/keeps-it.service", "[Unit]\nAfter=if.service\nWants=if.service\n" + SLEEPS)
    assert services.do("start", "keeps-it") == ""  # and so the other stays loaded
    assert "its conditions are not met" in services.do("start", "if")


def test_a_broken_unit_file_is_an_error_and_heals(machine: Machine, services: Services) -> None:
    unit(machine, "bad.service", "[Service]\nType=oneshot\n")
    assert "its unit file is not valid" in services.look("bad").error
    unit(machine, "bad.service")
    machine.run("systemctl", "daemon-reload")
    assert services.look("bad").error == ""


def test_reload_reloads_or_restarts(machine: Machine, services: Services) -> None:
    unit(machine, "can.service", shell("sleep infinity", "ExecReload=/bin/touch /run/reloaded"))
    unit(machine, "cannot.service")
    for name in ("can", "cannot"):
        assert services.do("start", name) == ""
    before = {n: machine.run("systemctl", "show", "-P", "MainPID", n).stdout for n in ("can", "cannot")}
    assert (services.reload("can"), services.reload("cannot")) == (True, False)
    after = {n: machine.run("systemctl", "show", "-P", "MainPID", n).stdout for n in ("can", "cannot")}
    assert machine.run("ls", "/run/reloaded").stdout
    assert before["can"] == after["can"]
    assert before["cannot"] != after["cannot"]


def test_units_of_other_kinds(machine: Machine, services: Services) -> None:
    unit(machine, "tick.service", "[Service]\nType=oneshot\nExecStart=/bin/true\n")
    unit(machine, "tick.timer", "[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n")
    unit(machine, "hear.socket", "[Socket]\nListenStream=/run/hear\n")
    unit(machine, "hear.service")
    unit(machine, "stage.service", "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n")
    for name in ("tick.timer", "hear.socket", "stage", "tick"):
        assert services.do("start", name) == "", name
    timer, socket, stage, once, target = services.look_all(
        ("tick.timer", ""), ("hear.socket", ""), ("stage", ""), ("tick", ""), ("basic.target", "")
    )
    assert (timer.running, timer.enabled, timer.state) == (True, False, "active (waiting)")
    assert (socket.running, socket.enabled, socket.state) == (True, None, "active (listening)")
    assert (stage.running, stage.state) == (True, "active (exited)")
    assert (once.running, once.state) == (False, "inactive (dead)")
    assert (target.running, target.enabled) == (True, None)
    assert services.do("enable", "tick.timer") == ""
    assert services.look("tick.timer").enabled is True
    assert "has no [Install] section" in services.do("enable", "hear.socket")


def test_templates_and_aliases(machine: Machine, services: Services) -> None:
    unit(machine, "many@.service", SLEEPS.replace("[Install]", "Environment=I=%i\n[Install]"))
    unit(machine, "first.service", SLEEPS + "Alias=second.service\n")
    assert services.do("enable", "many@one") == ""
    assert services.do("start", "many@one") == ""
    one, two, template, gone = services.look_all(
        ("many@one", ""), ("many@two", ""), ("many@", ""), ("none@", "")
    )
    assert (one.running, one.enabled) == (True, True)
    assert (two.known, two.running, two.enabled) == (True, False, False)
    assert (template.known, template.running) == (True, False)
    assert gone.known is False
    assert services.do("enable", "first") == ""
    assert services.do("start", "second") == ""
    assert active(machine, "first") == "active"
    assert services.look("second") == services.look("first")
    assert services.do("disable", "second") == ""
    assert services.look("first").enabled is False


def test_one_whose_file_is_gone_can_still_be_stopped(machine: Machine, services: Services) -> None:
    unit(machine, "orphan.service")
    assert services.do("start", "orphan") == ""
    machine.run("rm", f"{UNITS}/orphan.service")
    machine.run("systemctl", "daemon-reload")
    fact = services.look("orphan")
    assert (fact.known, fact.running) == (True, True)
    assert services.do("stop", "orphan") == ""
    assert services.look("orphan").known is False


def test_one_that_is_slow_to_start_is_waited_for(machine: Machine, services: Services) -> None:
    text = shell("sleep 1; systemd-notify --ready; sleep infinity", "Type=notify", "NotifyAccess=all")
    unit(machine, "slow.service", text)
    machine.run("systemctl", "start", "--no-block", "slow")
    fact = services.look("slow")
    assert (fact.running, fact.unsettled) == (True, False)


def test_a_service_of_a_user(machine: Machine, services: Services) -> None:
    machine.run("useradd", "--create-home", "--uid", "1000", "bob")
    machine.write("/home/bob/.config/systemd/user/mine.service", SLEEPS.replace("multi-user", "default"))
    machine.run("chown", "-R", "bob:", "/home/bob/.config")
    fact = services.look("mine", "bob")
    assert fact.error == "cannot reach bob's services: no user manager runs; loginctl enable-linger bob"
    assert "no user manager runs" in services.do("start", "mine", "bob")
    assert "there is no such user" in services.look("mine", "nobody-of-that-name").error
    machine.run("loginctl", "enable-linger", "bob")
    machine.run("systemctl", "start", "user@1000.service")  # waits until it is up
    assert services.do("enable", "mine", "bob") == ""
    assert services.do("start", "mine", "bob") == ""
    theirs, ours = services.look_all(("mine", "bob"), ("mine", ""))
    assert (theirs.running, theirs.enabled, theirs.error) == (True, True, "")
    assert ours.known is False
    assert machine.run("pgrep", "-u", "bob", "sleep").stdout
    machine.write("/home/bob/.config/systemd/user/mine.service", SLEEPS + "# changed\n")
    assert services.look("mine", "bob").stale is True
    assert services.do("refresh", user="bob") == ""
    assert services.look("mine", "bob").stale is False
    assert services.do("stop", "mine", "bob") == ""


def test_a_user_cannot_send_us_to_another_manager(machine: Machine, services: Services) -> None:
    unit(machine, "trap.service")
    machine.run("useradd", "--uid", "1777", "eve")
    machine.run("install", "-d", "-o", "eve", "/run/user/1777")
    machine.run("ln", "-s", "/run/systemd", "/run/user/1777/systemd")
    error = services.do("start", "trap", "eve")
    assert "belongs to user number 0, not to 1777" in error
    assert active(machine, "trap") == "inactive"


def test_another_root_can_be_enabled_in_but_nothing_starts(machine: Machine) -> None:
    machine.run("mkdir", "-p", "/srv/image")
    machine.run("mount", "--bind", "/", "/srv/image")
    image = Services(machine, "/srv/image")
    unit(machine, "imaged.service")
    assert image.look("imaged").enabled is False
    assert image.do("enable", "imaged") == ""
    fact = image.look("imaged")
    assert (fact.known, fact.running, fact.enabled) == (True, False, True)
    assert image.look("nothing-there").known is False
    assert "systemd does not run in this root" in image.do("start", "imaged")
    assert "systemd does not run in this root" in image.look("imaged", "bob").error
    assert image.do("disable", "imaged") == ""
    assert image.look("imaged").enabled is False
