"""What systemd says, in the words of a plan."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.host.services import systemd_units
from nodemanager.host.services.systemd_units import UnitStatus

STATES = [
    "active",
    "reloading",
    "inactive",
    "failed",
    "activating",
    "deactivating",
    "maintenance",
    "refreshing",
]


def status(**values: object) -> UnitStatus:
    everything = {
        "id": "x.service",
        "load": "loaded",
        "active": "active",
        "sub": "running",
        "path": "/x",
        **values,
    }
    return UnitStatus(**everything)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("sshd", "sshd.service"), ("fstrim.timer", "fstrim.timer"), ("getty@tty1", "getty@tty1.service"),
        ("org.example.Thing", "org.example.Thing.service"), ("srv-data.mount", "srv-data.mount"),
    ],
)  # fmt: skip
def test_a_name_without_a_type_is_a_service(name: str, unit: str) -> None:
    assert systemd_units.unit_name(name) == unit


@given(st.text(alphabet="ab.@-:_\\ /*\n", max_size=12))
def test_full_names_stay_and_odd_ones_are_refused(name: str) -> None:
    unit = systemd_units.unit_name(name)
    assert systemd_units.unit_name(unit) == unit
    if systemd_units.is_unit_name(unit):
        assert not set(unit) & set(" /*\n")
        assert not unit.startswith("@")


@given(
    st.sampled_from(["loaded", "not-found", "masked", "bad-setting", "error"]), st.sampled_from(STATES),
    st.sampled_from(["dead", "running", "auto-restart", "auto-restart-queued", "exited", "start-pre"]),
    st.sampled_from(["enabled", "disabled", "static", "masked", "indirect", "generated", "transient", ""]),
    st.booleans(),
)  # fmt: skip
def test_no_state_is_beyond_words(load: str, active: str, sub: str, file: str, stale: bool) -> None:
    fact = systemd_units.fact(status(load=load, active=active, sub=sub, file=file, stale=stale))
    assert not (fact.running and fact.unsettled)
    assert fact.known or not fact.running
    assert fact.state or fact.error
    if fact.running:
        assert not fact.error
    if not fact.error and "masked" in (load, file) and fact.known:
        assert fact.state == "masked"
    if file in ("static", "indirect", "generated", "transient", ""):
        assert fact.enabled is None


def test_what_happens_by_itself_is_told_apart() -> None:
    assert systemd_units.fact(status(active="reloading", sub="reload")).running
    crashing = status(active="activating", sub="auto-restart")
    assert crashing.settled
    assert systemd_units.fact(crashing).unsettled
    assert not status(active="activating", sub="start").settled
    assert systemd_units.fact(status(load="not-found", active="active")).known
    assert not systemd_units.fact(status(load="not-found", active="failed")).known


def test_a_unit_file_that_is_wrong_blocks_unless_it_was_mended_since() -> None:
    wrong = status(load="bad-setting", active="inactive", sub="dead")
    assert "is not valid" in systemd_units.fact(wrong).error
    mended = status(load="bad-setting", active="inactive", sub="dead", stale=True)
    assert (systemd_units.fact(mended).error, systemd_units.fact(mended).stale) == ("", True)


@pytest.mark.parametrize(
    ("service", "said"),
    [
        ({"ExecMainCode": 1, "ExecMainStatus": 3}, "exit status 3"),
        ({"ExecMainCode": 2, "ExecMainStatus": 9}, "killed by signal 9"),
        ({"ExecMainCode": 0, "Result": "resources"}, "resources"), ({}, ""),
    ],
)  # fmt: skip
def test_how_it_ended(service: dict[str, object], said: str) -> None:
    assert systemd_units.ending(service) == said
