"""What is proposed, who is asked about it, and how the answers are told together."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT
from nodemanager.api.maintenance.nodetask import NodeTask
from nodemanager.api.maintenance.task_previews import PreviewedChange, TaskPreview
from nodemanager.cli.fleet_preview import PreviewOutcome
from nodemanager.cli.views import fleet_preview_view, output
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.previews import asking, grouping, proposing
from nodemanager.fleet.previews.grouping import Answer, Silence
from nodemanager.fleet.previews.proposing import Proposal, SetFate
from nodemanager.kube.objects import ObjectMeta, OwnerReference

CASES: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[2] / "cases/previews/groups.yaml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_answers_are_told_together(case: dict[str, Any]) -> None:
    answers: dict[str, Answer] = {
        host: Silence(said) if isinstance(said, str) else msgspec.convert(said, TaskPreview)
        for host, said in case["hosts"].items()
    }
    result = grouping.result(list(answers), answers)
    outcome = PreviewOutcome(Proposal((), {"base": SetFate.CHANGED}, ()), len(answers), result, {})
    assert "\n".join(fleet_preview_view.lines(outcome, output.PLAIN)) == case["text"].rstrip("\n")
    assert result.code == case["code"]
    plain = fleet_preview_view.plain(outcome)
    told = [*plain["unchanged"], *(one["host"] for one in plain["silent"])]
    assert sorted([*told, *(host for one in plain["groups"] for host in one["hosts"])]) == sorted(answers)


def test_programs_find_every_field() -> None:
    said = msgspec.convert({"digest": "aa", "blocked": 1, "changes": [{"resource": "x"}]}, TaskPreview)
    result = grouping.result(["a", "b"], {"a": said, "b": Silence("HostSilent")})
    plain = fleet_preview_view.plain(PreviewOutcome(Proposal((), {}, ()), 3, result, {}))
    change = {"resource": "x", "verb": "", "reason": "", "details": "", "blocked": False}
    group = {"hosts": ["a"], "digest": "aa", "changed": 0, "blocked": 1, "more": 0, "changes": [change]}
    assert plain == {
        "configSets": [], "hosts": 3, "asked": 2, "changed": False, "exitCode": 1, "groups": [group],
        "unchanged": [], "silent": [{"host": "b", "state": "HostSilent", "message": ""}], "leftOut": [],
        "warnings": [],
    }  # fmt: skip


def test_labels_of_gitops_tools_are_no_change_and_stay() -> None:
    def labelled(content: str, **labels: str) -> ConfigSet:
        one = config_set("a", "web", content)
        return msgspec.structs.replace(one, metadata=ObjectMeta(name="a", labels=labels))

    gitops = {"argocd.argoproj.io/instance": "x"}
    known = labelled("1", role="web", **gitops)
    assert proposing.propose([labelled("1", role="web")], [known]).fates == {}
    assert proposing.propose([labelled("1")], [known]).fates == {"a": SetFate.CHANGED}
    (sent,) = proposing.propose([labelled("2", role="web")], [known]).contents()
    assert sent.labels == {"role": "web", **gitops}


def config_set(name: str, role: str, content: str = "", owner: str = "") -> ConfigSet:
    owners = [OwnerReference("v1", owner, "o", "u")] if owner else []
    spec = {"nodeSelector": {"matchLabels": {"role": role}}, "files": [{"path": "/x", "content": content}]}
    meta = ObjectMeta(name=name, owner_references=owners)
    return ConfigSet(metadata=meta, spec=msgspec.convert(spec, ConfigSetSpec))


def host(name: str, role: str = "web", **status: Any) -> ManagedNode:
    said = {"conditions": [{"type": "Alive", "status": "True"}], **status}
    meta = {"name": name, "uid": f"uid-{name}", "labels": {"role": role}}
    return msgspec.convert({"metadata": meta, "status": said}, ManagedNode)


def test_only_what_differs_is_proposed() -> None:
    known = [
        config_set("same", "web"), config_set("other", "web", "1"), config_set("gone", "db"),
        config_set("made", "db", owner="NodeMaintenance"),
    ]  # fmt: skip
    wanted = [config_set("same", "web"), config_set("other", "web", "2"), config_set("new", "db")]
    found = proposing.propose(wanted, known)
    assert found.fates == {"other": SetFate.CHANGED, "new": SetFate.NEW}
    assert [one.name for one in found.contents()] == ["other", "new"]
    assert proposing.propose(wanted, known, prune=True).removed == ["gone"]
    assert proposing.propose(known, known).fates == {}


def test_it_is_about_hosts_that_have_it_would_have_it_or_say_that_they_have() -> None:
    found = proposing.propose([config_set("a", "web")], [config_set("a", "db")])
    hosts = [
        host("then"), host("now", "db"), host("never", "mail"),
        host("still", "mail", configsets=[{"name": "a"}]),
    ]  # fmt: skip
    about = proposing.concerned(found, hosts)
    assert [one.metadata.name for one in about] == ["then", "now", "still"]
    many = [*about, *(host(f"web{number}") for number in range(50))]
    chosen = [one.metadata.name for one in proposing.sample(found, many, 4)]
    assert len(chosen) == len({"now", "still"} | set(chosen)) == 4, "some of each kind"
    assert chosen == [one.metadata.name for one in proposing.sample(found, many[::-1], 4)]
    assert len(proposing.sample(found, many, 1000)) == len(many)


def test_few_are_asked_at_once_and_who_cannot_answer_is_named() -> None:
    names = [f"h{number:03}" for number in range(asking.AT_ONCE + 10)]
    known = {name: host(name) for name in names}
    known["h001"] = host("h001", conditions=[{"type": "Alive", "status": "False"}])
    first = asking.turn([*names, "nobody"], {}, (), known)
    assert first.unasked == {"h001": Reason.HOST_SILENT, "nobody": Reason.HOST_GONE}
    assert (len(first.ask), first.complete) == (asking.AT_ONCE, False)
    ended = dict.fromkeys(first.ask, False) | {first.ask[0]: True}
    second = asking.turn([*names, "nobody"], ended, first.unasked, known)
    assert (second.ask, second.unasked, second.complete) == ([names[asking.AT_ONCE + 1]], {}, False)
    last = asking.turn(names, dict.fromkeys(first.ask, True), first.unasked, known)
    assert (len(last.ask), last.complete) == (9, True)


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"conditions": []}, Reason.HOST_WITHOUT_AGENT),
        ({"conditions": [{"type": "Alive", "status": "Unknown"}]}, Reason.HOST_WITHOUT_AGENT),
        (
            {"conditions": [{"type": "Alive", "status": "True"}, {"type": "Held", "status": "True"}]},
            Reason.HOST_HELD,
        ),
        (
            {"conditions": [{"type": "Alive", "status": "Unknown"}], "heartbeat": {"sequence": 1}},
            Reason.HOST_SILENT,
        ),
        ({"conditions": [{"type": "Alive", "status": "False"}]}, Reason.HOST_SILENT),
        ({"kubernetesNodeCordoned": "2026-01-01T00:00:00Z"}, Reason.HOST_UPGRADING),
        ({}, None),
    ],
)
def test_who_can_answer(status: dict[str, Any], why: Reason | None) -> None:
    assert asking.unfit(host("a", **status)) == why


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("visit", "why"),
    [
        (Claim("monday", "m", "h", "r", 0, State.WORKING, NOW, NOW, NOW), Reason.HOST_BUSY),
        (Claim("monday", "m", "h", "r", 0, State.DONE, NOW, NOW, NOW, group="web"), Reason.HOST_BUSY),
        (Claim("monday", "m", "h", "r", 0, State.DONE, NOW, NOW, NOW), None),
        ("no claim", Reason.CLAIM_UNREADABLE),
    ],
)
def test_who_is_worked_on_is_not_asked(visit: Claim | str, why: Reason | None) -> None:
    text = visit if isinstance(visit, str) else claims.encode(visit)
    alive, silent = host("a"), host("a", conditions=[{"type": "Alive", "status": "False"}])
    for one, otherwise in ((alive, None), (silent, Reason.HOST_SILENT)):
        one.metadata.annotations[ANNOTATION_VISIT] = text
        assert asking.unfit(one) == (why or otherwise), "a visit is why it is silent"


def test_everybody_is_asked_once_whoever_cannot_answer() -> None:
    known = {name: host(name) for name in "abc"} | {"d": host("d", conditions=[])}
    found = asking.turn(["a", "b", "a", "d", "gone"], {"b": True}, (), known)
    assert found.ask == ["a"]
    assert found.unasked == {"d": Reason.HOST_WITHOUT_AGENT, "gone": Reason.HOST_GONE}
    assert found.complete, "nobody is left after that"
    assert asking.turn(["b"], {"b": False}, (), known) == ([], {}, True)
    assert asking.turn(["d"], {}, {"d"}, known) == ([], {}, True)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({}, "its agent has not taken the task"),
        ({"phase": "Running"}, "Running"),
        ({"phase": "Pending", "message": "it waits for another task"}, "it waits for another task"),
    ],
)
def test_why_a_host_has_not_answered_in_time(status: dict[str, str], message: str) -> None:
    task = msgspec.convert({"status": status}, NodeTask)
    assert grouping.late(task) == Silence(grouping.UNANSWERED, message)


def test_of_what_is_not_told_one_by_one_the_number_is_known() -> None:
    many = TaskPreview(changed=3, blocked=2, changes=[PreviewedChange(resource="x")])
    few = TaskPreview(changed=0, blocked=0, changes=[PreviewedChange(resource="x")])
    assert [grouping.Group(("a",), one).more for one in (many, few)] == [4, 0]


@pytest.mark.parametrize(
    ("answers", "changed", "code"),
    [
        ({}, False, grouping.NO_CHANGES),
        ({"a": TaskPreview()}, False, grouping.NO_CHANGES),
        ({"a": TaskPreview(changed=1)}, True, grouping.CHANGES),
        ({"a": TaskPreview(changed=1), "b": Silence("HostSilent")}, True, grouping.CHANGES),
        ({"a": TaskPreview(blocked=1)}, False, grouping.CANNOT),
        ({"a": TaskPreview(), "b": Silence("HostSilent")}, False, grouping.CANNOT),
    ],
)
def test_what_answers_mean_for_whoever_asked(answers: dict[str, Answer], changed: bool, code: int) -> None:
    found = grouping.result(list(answers), answers)
    assert (found.changed, found.code, found.asked) == (changed, code, len(answers))


def test_the_largest_group_comes_first_then_by_name() -> None:
    one, other, third = (TaskPreview(digest="d", changed=number) for number in (1, 2, 3))
    answers: dict[str, Answer] = {"e": one, "d": other, "c": one, "b": third, "a": TaskPreview()}
    found = grouping.result(list(answers), answers)
    assert [group.hosts for group in found.groups] == [("c", "e"), ("b",), ("d",)]
    assert found.unchanged == ("a",)


def test_what_a_task_says() -> None:
    def said(phase: str, **step: Any) -> Answer | None:
        steps = [{"name": "preview", **step}] if step else []
        status = {"phase": phase, "message": "why", "steps": steps}
        return grouping.answer(msgspec.convert({"status": status}, NodeTask))

    assert said("Running") is None
    assert said("Refused") == Silence("Refused", "why")
    assert said("Failed", preview={"digest": "aa"}) == Silence("Failed", "why"), "whatever it has found"
    assert said("Succeeded") == Silence("Succeeded", "why")
    assert said("Succeeded", output="old") == Silence(
        "TooOld", "its agent does not know proposals; upgrade it"
    )
    assert said("Succeeded", preview={"digest": "aa", "changed": 1}) == TaskPreview(digest="aa", changed=1)
    assert grouping.late(None).state == grouping.UNANSWERED
