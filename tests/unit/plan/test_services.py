"""What plans of services leave alone, what is recorded of services, and how they are put back."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.api.common.declarations import Service
from nodemanager.plan import merge, services
from nodemanager.plan.facts import Facts, ServiceFact
from nodemanager.plan.ownership import Owned, PutBack
from nodemanager.plan.resources import ResourceId, service_id
from nodemanager.plan.steps import Blocked, ChangeService, Noop, Step
from support.root_tree import config_set

WEB = ResourceId("service", "web")
UP, DOWN = ServiceFact(known=True, running=True), ServiceFact(known=True)


def planned(fact: ServiceFact | None, settled: bool | None = None, **fields: Any) -> list[Step]:
    desired = merge.merge([config_set("s", services=[{"name": "web", **fields}])])
    facts = Facts(services={} if fact is None else {WEB: fact})
    if settled is None:
        return list(services.plan_services(desired, facts))
    return list(services.plan_services(desired, facts, settled=settled))


def test_what_was_not_observed_is_blocked() -> None:
    (step,) = planned(None, ensure="running")
    assert isinstance(step, Blocked)
    assert (step.reason, step.lack) == ("was not observed", None)


def test_what_is_on_its_way_is_left_to_itself_in_a_repair_only() -> None:
    coming = ServiceFact(known=True, unsettled=True, state="activating")
    assert planned(coming, settled=True, ensure="running") == []
    assert len(planned(coming, ensure="running")) == len(planned(coming, False, ensure="running")) == 1
    assert len(planned(UP, settled=True, ensure="running")) == 1


@pytest.mark.parametrize("fields", [{"ensure": "running"}, {"enable": True}], ids=str)
def test_what_is_masked_or_not_there_can_be_neither_started_nor_enabled(fields: dict[str, Any]) -> None:
    (masked,) = planned(ServiceFact(known=True, state="masked"), **fields)
    assert isinstance(masked, Blocked)
    assert "it is masked; run systemctl unmask web" in masked.reason
    assert masked.lack is None
    (unknown,) = planned(ServiceFact(), **fields)
    assert isinstance(unknown, Blocked)
    assert "the host has none of this name; correct the name" in unknown.reason
    assert unknown.lack is not None
    assert unknown.lack.then == ("will start" if "ensure" in fields else "will enable")


@pytest.mark.parametrize("fields", [{"ensure": "stopped"}, {"enable": False}], ids=str)
def test_what_is_not_there_is_stopped_and_disabled(fields: dict[str, Any]) -> None:
    (step,) = planned(ServiceFact(), **fields)
    assert isinstance(step, Noop)
    assert step.reason == "there is no such service"


def test_arguments_that_nobody_declares_are_left_alone() -> None:
    (step,) = planned(ServiceFact(known=True, running=True, arguments="-v"), ensure="running")
    assert isinstance(step, Noop)
    (step,) = planned(ServiceFact(known=True, running=True), ensure="running", arguments="-q")
    assert isinstance(step, Noop)  # its service manager knows none
    (step,) = planned(ServiceFact(known=True, running=True, arguments="-v"), ensure="running", arguments="-q")
    assert isinstance(step, ChangeService)
    assert (step.arguments, step.reason) == ("-q", "has other arguments")


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        (ServiceFact(known=True, running=True, enabled=True), "is running, enabled"),
        (ServiceFact(known=True, running=True, enabled=False), "is running, disabled"),
        (ServiceFact(known=True), "is not running"),
    ],
)
def test_how_it_is_in_words(fact: ServiceFact, said: str) -> None:
    (step,) = planned(fact, ensure="running" if fact.running else "stopped")
    assert step.reason == said


def seen(fact: ServiceFact, step: Step | None = None, **fields: Any) -> Any:
    desired = merge.merge([config_set("s", services=[{"name": "web", **fields}])])
    (item,) = desired.services
    assert services.KIND.owning is not None
    noop = Noop(id=WEB, sources=("s",), reason="")
    return services.KIND.owning.seen(item, step or noop, Facts(services={WEB: fact}))


def test_what_is_recorded_is_what_is_declared_and_can_be_told() -> None:
    fact = ServiceFact(known=True, enabled=False)
    now, then = {"running": "false", "enabled": "false"}, {"running": "true", "enabled": "true"}
    assert seen(fact, ensure="running", enable=True) == (now, then)
    assert seen(fact, enable=True) == ({**now, "running": ""}, {**then, "running": ""})
    assert seen(fact, ensure="running") == ({**now, "enabled": ""}, {**then, "enabled": ""})
    assert seen(DOWN, ensure="running", enable=True) == ({**now, "enabled": ""}, {**then, "enabled": ""})
    coming = ServiceFact(known=True, unsettled=True)
    assert seen(coming, ensure="stopped")[0]["running"] == "true"
    assert seen(UP, ensure="stopped")[0]["running"] == "true"


def test_nothing_is_recorded_of_what_is_not_done_or_not_known() -> None:
    blocked = Blocked(id=WEB, sources=("s",), reason="no")
    assert seen(UP, blocked, ensure="running") is None
    assert seen(ServiceFact(), ensure="running") is None
    assert seen(ServiceFact(known=True, error="no bus"), ensure="running") is None


def test_a_service_that_is_not_there_yet_is_not_running() -> None:
    assert services.missing(Service(name="web", ensure="running")) == {"running": "false", "enabled": "false"}
    assert services.missing(Service(name="web", enable=True)) == {"running": "", "enabled": "false"}


def test_services_are_known_by_their_names_and_users() -> None:
    users = service_id(Service(name="web", user="alice"))
    found = services.needs_of([WEB, users])
    assert [(one.id, one.declaration.name, one.declaration.user) for one in found] == [
        (WEB, "web", ""), (users, "web", "alice"),
    ]  # fmt: skip


def back(fact: ServiceFact | None, before: dict[str, str] | None, ours: dict[str, str] | None) -> PutBack:
    owned = Owned(("s",), before, () if ours is None else (ours,))
    assert services.KIND.owning is not None
    facts = Facts(services={} if fact is None else {WEB: fact})
    return services.KIND.owning.put_back({WEB: owned}, facts)[WEB]


def state(running: str = "", enabled: str = "") -> dict[str, str]:
    return {"running": running, "enabled": enabled}


def test_what_cannot_be_told_is_left_and_what_is_gone_needs_nothing() -> None:
    assert back(None, state("true"), state("false")).left == "was not observed"
    assert back(ServiceFact(error="no bus"), state("true"), state("false")).left == "no bus"
    assert back(ServiceFact(), state("true"), state("false")) == PutBack()


@pytest.mark.parametrize(
    ("before", "ours", "fact", "ensure", "enable", "why"),
    [
        ("false", "true", DOWN, "", None, ""),  # somebody else has stopped it
        ("true", "false", DOWN, "running", None, "it ran before"),
        ("true", "false", UP, "", None, ""),
        ("true", "true", UP, "", None, ""),
        ("true", "", DOWN, "", None, ""),  # that was none of ours
        ("", "true", UP, "", None, ""),
    ],
)
def test_whether_it_runs_is_put_back_where_it_is_as_we_left_it(
    before: str, ours: str, fact: ServiceFact, ensure: str, enable: bool | None, why: str
) -> None:
    found = back(fact, state(before), state(ours))
    assert found.why == why
    wanted = found.declaration or Service(name="web")
    assert (wanted.ensure, wanted.enable) == (ensure, enable)


def test_one_that_ran_not_and_starts_at_boot_goes_on_running() -> None:
    enabled, unknown = (ServiceFact(known=True, running=True, enabled=one) for one in (True, None))
    found = back(enabled, state("false"), state("true"))
    assert (found.declaration, found.final, found.ours) == (None, True, state("true"))
    assert found.left == "it starts at boot, which is not our doing, so it goes on running"
    found = back(unknown, state("false"), state("true"))
    assert "others may start it" in found.left
    disabled = ServiceFact(known=True, running=True, enabled=False)
    found = back(disabled, state("false"), state("true"))
    assert (found.declaration.ensure, found.why) == ("stopped", "it did not run before")


def test_whether_it_starts_at_boot_is_put_back_too() -> None:
    on, off = (ServiceFact(known=True, running=True, enabled=one) for one in (True, False))
    found = back(on, state("false", "false"), state("true", "true"))
    assert (found.declaration.enable, found.declaration.ensure) == (False, "stopped")
    assert found.why == "it was not enabled before, it did not run before"
    assert found.ours == state("true", "true")
    found = back(off, state("", "true"), state("", "false"))
    assert (found.declaration.enable, found.why) == (True, "it was enabled before")
    assert back(on, state("", "true"), state("", "false")) == PutBack()  # somebody else has enabled it
    assert back(on, state("", "true"), state("", "true")) == PutBack()
    assert back(off, state("", "true"), state("", "")) == PutBack()
    assert back(off, None, state("", "false")) == PutBack()
    assert back(off, state("", "true"), None) == PutBack()


def test_what_somebody_else_changed_is_ours_no_more() -> None:
    on = ServiceFact(known=True, running=False, enabled=True)
    found = back(on, state("true", "false"), state("true", "true"))
    assert found.ours == state("", "true")


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("/etc/systemd/system/web.service", "web.service"),
        ("/etc/systemd/system/web.service.d/limits.conf", "web.service"),
        ("/etc/systemd/user/web.socket", "web.socket"),
        ("/etc/web.service", ""),
    ],
)
def test_which_unit_a_file_is_about(path: str, unit: str) -> None:
    assert services.KIND.naming is not None
    assert services.KIND.naming.of_path(path) == unit


def test_what_a_unit_is_called() -> None:
    assert services.KIND.naming is not None
    names = [services.KIND.naming.name(Service(name=one)) for one in ("web", "web.socket")]
    assert names == ["web.service", "web.socket"]


def test_stopping_and_disabling_begin_nothing() -> None:
    begins = services.KIND.begins
    assert begins(Service(name="web", ensure="running"))
    assert begins(Service(name="web", enable=True))
    assert not begins(Service(name="web", ensure="stopped", enable=False))
