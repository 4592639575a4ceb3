"""Which records follow from tasks, upgrades, prunings, and from what is applied by hand."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from nodemanager.agent.audit import trail_records
from nodemanager.api.audit import record as records
from nodemanager.api.audit import step_digests
from nodemanager.api.audit.record import Record
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.maintenance.task_steps import ExecutionAction, RebootAction, TaskStep
from nodemanager.cli import by_hand
from nodemanager.cli.commands.host import upgrade_agent
from nodemanager.host.results import Outcome, Result
from nodemanager.host.self_update.records import Intent
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan import resources
from nodemanager.plan.tasks.record import StepPhase, StepRecord, TaskPhase, TaskRecord

RUN = TaskStep(name="run", execution=ExecutionAction(argv=["apt-get", "clean"], env={"TOKEN": "hush"}))
STEPS = [RUN, TaskStep(name="boot", reboot=RebootAction())]
DONE = StepRecord(
    phase=StepPhase.FAILED, attempts=1, exit_code=3, message="hush", output="hush", evidence={"a": "b"}
)


def at(*steps: StepRecord, phase: TaskPhase = TaskPhase.RUNNING, reason: str = "") -> TaskRecord:
    return TaskRecord("uid", steps=steps, phase=phase, reason=reason)


def told(found: list[Record]) -> list[tuple[str, str, str]]:
    return [(one.verb, one.aspect, one.to) for one in found]


def test_a_task_is_recorded_from_its_begin_to_its_end_each_once() -> None:
    boot = StepRecord(phase=StepPhase.RUNNING, attempts=1)
    ways = [
        (at(StepRecord(), StepRecord()), []),
        (at(StepRecord(phase=StepPhase.RUNNING, attempts=1), StepRecord()), [("begin", "task", "")]),
        (at(DONE, StepRecord()), [("end", "step/run", "Failed")]),
        (at(DONE, boot), [("begin", "step/boot", "")]),
        (at(DONE, boot), []),
        (at(DONE, StepRecord(phase=StepPhase.SUCCEEDED, attempts=1)), [("end", "step/boot", "Succeeded")]),
        (
            at(DONE, StepRecord(phase=StepPhase.SUCCEEDED, attempts=1), phase=TaskPhase.FAILED, reason="R"),
            [("end", "task", "Failed")],
        ),
    ]
    before: TaskRecord | None = None
    for now, expected in ways:
        found = trail_records.of_task("t", STEPS, before, now)
        assert told(found) == expected
        assert all(
            (one.object.kind, one.object.name, one.object.uid) == ("NodeTask", "t", "uid") for one in found
        )
        before = now


def test_a_step_is_told_by_digests_and_nothing_that_it_said() -> None:
    before = at(StepRecord(phase=StepPhase.RUNNING, attempts=1), StepRecord())
    (one,) = trail_records.of_task("t", STEPS, before, at(DONE, StepRecord()))
    assert one.step is not None
    argv = hashlib.sha256(b'["apt-get","clean"]').hexdigest()
    assert (one.step.argv_digest, one.step.exit_code, one.step.attempts) == (argv, 3, 1)
    assert one.evidence_digest == hashlib.sha256(b'{"a":"b"}').hexdigest()
    assert b"hush" not in records.encode(one)


@pytest.mark.parametrize(
    ("step", "digested"),
    [
        (TaskStep(name="a", execution=ExecutionAction(argv=["x"])), b'["x"]'),
        (TaskStep(name="b", timeout="1h", execution=ExecutionAction(argv=["x"], env={"A": "b"})), b'["x"]'),
        (TaskStep(name="c", execution=ExecutionAction(script="echo")), b'"echo"'),
        (TaskStep(name="d", reboot=RebootAction()), None),
    ],
)
def test_the_digest_of_a_step_is_that_of_its_argv_only(step: TaskStep, digested: bytes | None) -> None:
    expected = hashlib.sha256(digested).hexdigest() if digested is not None else ""
    assert step_digests.argv_digest(step) == expected


@pytest.mark.parametrize(
    ("reason", "verb"), [("UpgradeStarted", "begin"), ("Upgraded", "end"), ("UpgradeFailed", "end")]
)
def test_an_upgrade_begins_and_ends(reason: str, verb: str) -> None:
    one = trail_records.of_upgrade(reason, "web1")
    assert (one.verb, one.aspect, one.reason, one.object.name) == (verb, "upgrade", reason, "web1")


def test_what_is_pruned_is_a_record_of_its_own_and_drifts_are_not_in_it() -> None:
    def result(path: str, **more: bool | str) -> Result:
        return Result(resources.file_id(path), ("a",), Outcome.CHANGED, done="done", **more)  # type: ignore[arg-type]

    one = ConfigSet(metadata=ObjectMeta(name="a", namespace="n", uid="u", generation=4))
    results = [result("/new"), result("/old", pruned=True, found="f" * 64), result("/drift", drifted=True)]
    results.append(Result(resources.file_id("/same"), ("a",), Outcome.UNCHANGED))
    made, pruned = trail_records.of_results([one], results)
    assert (made.verb, [file.path for file in made.files], made.object.generation) == ("apply", ["/new"], 4)
    assert (pruned.verb, [(file.path, file.before) for file in pruned.files]) == (
        "prune",
        [("/old", "f" * 64)],
    )
    assert pruned.message == "file:/old done"


def lines(root: Path) -> list[Record]:
    path = root / "var/lib/nodemanager/audit.chain"
    return [records.decode(line) for line in path.read_bytes().splitlines()]


def test_what_is_applied_by_hand_names_who_did_it_and_what_sudo_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_USER", "eve\nroot")
    by_hand.applied(str(tmp_path), "web1", [Result(resources.file_id("/a"), ("a",), Outcome.UNCHANGED)])
    assert not (tmp_path / "var").exists(), "nothing was changed"
    by_hand.applied(str(tmp_path), "web1", [Result(resources.file_id("/a"), ("a",), Outcome.CHANGED)])
    one = lines(tmp_path)[-1]
    assert (one.verb, one.host, one.actor.name != "agent", one.actor.known) == ("apply", "web1", True, "host")
    assert one.actor.claimed.startswith("sudo by eve")
    assert "\n" not in one.actor.claimed


def test_an_upgrade_of_the_agent_by_hand_is_recorded(tmp_path: Path) -> None:
    intent = Intent("i", "/usr/bin/manager", 60, "0.1.0", "0.2.0", "a" * 64, "b" * 64, report=True)
    upgrade_agent.record("begin", intent, root=str(tmp_path))
    upgrade_agent.record("end", intent, "proven", root=str(tmp_path))
    begun, ended = lines(tmp_path)[1:]
    assert (begun.verb, begun.aspect, begun.from_, begun.to) == ("begin", "agent", "0.1.0", "0.2.0")
    assert [(one.path, one.before, one.after) for one in begun.files] == [
        ("/usr/bin/manager", "a" * 64, "b" * 64)
    ]
    assert (ended.verb, ended.reason) == ("end", "proven")


def test_a_host_that_cannot_be_written_has_the_command_warn_and_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "var").write_text("in the way")
    by_hand.recorded(str(tmp_path), "web1", [Record(verb="hold")])
    assert capsys.readouterr().err.startswith("warning: cannot record what was done in ")
