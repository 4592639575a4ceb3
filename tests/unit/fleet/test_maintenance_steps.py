"""Templates and parameters become steps: what may be filled in, and what operations become together."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodemanager.agent.tasks import packages
from nodemanager.agent.tasks.packages import MAX_EVIDENCE
from nodemanager.api.maintenance.health_gates import Health
from nodemanager.api.maintenance.nodeoperationtemplate import NodeOperationTemplateSpec, Parameter
from nodemanager.api.maintenance.nodetask import (
    MAX_STEPS,
    NodeTask,
    NodeTaskSpec,
    NodeTaskStatus,
    TaskStepStatus,
)
from nodemanager.api.maintenance.operations import Operation
from nodemanager.api.maintenance.task_steps import PackagesAction, PackagesBefore, TaskStep
from nodemanager.fleet.maintenance import steps, undoing
from nodemanager.fleet.maintenance.steps import StepsError, TemplateMissing
from nodemanager.kube.objects import ObjectMeta


def template(*found: dict[str, Any], parameters: Any = (), **fields: Any) -> NodeOperationTemplateSpec:
    spec = {"parameters": list(parameters), "steps": list(found), **fields}
    return msgspec.convert(spec, NodeOperationTemplateSpec)


def operation(name: str, *found: dict[str, Any], **fields: Any) -> Operation:
    return msgspec.convert({"name": name, "type": "one-shot", "steps": list(found), **fields}, Operation)


def run(*argv: str, **fields: Any) -> dict[str, Any]:
    return {"name": "run", "execution": {"argv": list(argv)}, **fields}


def refer(name: str = "t", **parameters: str) -> Operation:
    return operation("op", templateRef={"name": name}, parameters=parameters)


BOOT = {"name": "boot", "reboot": {"when": "ifNeeded"}}


def test_a_value_stays_one_word_whatever_is_in_it() -> None:
    one = template(
        run("install", "--to=$(params.where)", "$(params.what)"),
        parameters=[{"name": "what"}, {"name": "where"}],
    )
    evil = "x; rm -rf / && $(reboot) `id` 'a' $(params.where)"
    made = steps.work([refer(what=evil, where="/a b")], {"t": one})
    assert made.steps[0].execution is not None
    assert made.steps[0].execution.argv == ["install", "--to=/a b", evil]


def test_scripts_find_parameters_in_their_environment_and_are_not_changed() -> None:
    script = '#!/bin/sh\necho "$PARAM_TO_KEEP"\n'
    one = template({"name": "s", "execution": {"script": script, "env": {"A": "$(params.to-keep)"}}},
                   parameters=[{"name": "to-keep", "type": "integer", "default": "2"}])  # fmt: skip
    execution = steps.work([refer(**{"to-keep": "7"})], {"t": one}).steps[0].execution
    assert execution is not None
    assert execution.script == script
    assert execution.env == {"A": "7", "PARAM_TO_KEEP": "7"}


@pytest.mark.parametrize(
    "execution",
    [
        {"script": "echo $(params.p)"},
        {"argv": ["sh", "-c", "echo $(params.p)"]},
        {"argv": ["/bin/bash", "-e", "-c", "$(params.p)", "bash"]},
        {"argv": ["env", "A=b", "sh", "-ec", "echo $(params.p)"]},
        {"argv": ["python3", "-c", "print($(params.p))"]},
        {"argv": ["sh", "-cx", "echo $(params.p)"]},
        {"argv": ["bash", "-c", "-x", "--", "echo $(params.p)"]},
        {"argv": ["perl", "-E", "say $(params.p)"]},
        {"argv": ["perl", "-e", "1", "-e", "$(params.p)"]},
        {"argv": ["su", "www", "-c", "$(params.p)"]},
        {"argv": ["su", "--command=$(params.p)", "www"]},
        {"argv": ["su", "--command", "$(params.p)", "www"]},
    ],
)
def test_no_parameter_is_filled_into_what_a_shell_reads(execution: dict[str, Any]) -> None:
    one = template({"name": "s", "execution": execution}, parameters=[{"name": "p"}])
    with pytest.raises(StepsError, match="they would be read as code"):
        steps.work([refer(p="x")], {"t": one})
    probe = template(
        {"name": "s", "probe": {"argv": ["sh", "-c", "$(params.p)"]}}, parameters=[{"name": "p"}]
    )
    with pytest.raises(StepsError, match="they would be read as code"):
        steps.work([refer(p="x")], {"t": probe})


@pytest.mark.parametrize(
    "argv",
    [
        ["sh", "-c", 'echo "$1"', "sh", "$(params.p)"],
        ["bash", "-ex", "-c", 'echo "$1"', "$(params.p)"],
        ["grep", "-c", "$(params.p)"],
        ["sh", "/opt/it", "$(params.p)"],
        ["su", "$(params.p)"],
    ],
)
def test_a_parameter_is_filled_into_what_a_program_gets_as_a_word(argv: list[str]) -> None:
    one = template(run(*argv), parameters=[{"name": "p"}])
    execution = steps.work([refer(p="x y")], {"t": one}).steps[0].execution
    assert execution is not None
    assert execution.argv == [word.replace("$(params.p)", "x y") for word in argv]


@pytest.mark.parametrize(
    "declared",
    [
        {"files": [{"path": "/x", "ensure": "file", "template": "{{ $(params.p) }}"}]},
        {"executions": [{"name": "x", "command": "/bin/sh", "args": ["-c", "$(params.p)"]}]},
    ],
    ids=["template", "command"],
)
def test_no_parameter_is_filled_into_code_of_a_set(declared: dict[str, Any]) -> None:
    one = template(configSet=declared, parameters=[{"name": "p"}])
    with pytest.raises(StepsError, match=r"in configSet\.[a-z]+.*: they would be read as code"):
        steps.config_set_of(refer(p="x"), {"t": one})


def test_an_undo_script_has_the_parameters_too_and_what_it_says_itself_wins() -> None:
    undo = {"execution": {"script": "b", "env": {"PARAM_P": "mine"}}}
    step = {"name": "s", "execution": {"argv": ["a"]}, "undo": undo}
    one = template(step, parameters=[{"name": "p"}, {"name": "q"}])
    made = steps.work([refer(p="x", q="y")], {"t": one}).steps[0]
    assert made.undo is not None
    assert made.undo.execution is not None
    assert made.undo.execution.env == {"PARAM_P": "mine", "PARAM_Q": "y"}
    assert made.execution is not None
    assert made.execution.env == {}


def test_no_value_is_looked_into_once_more() -> None:
    """What is given for one parameter does not become another one."""
    script = {"name": "s", "execution": {"script": "true"}}
    one = template(script, parameters=[{"name": "p"}, {"name": "q"}])
    execution = steps.work([refer(p="$(params.q)", q="y")], {"t": one}).steps[0].execution
    assert execution is not None
    assert execution.env == {"PARAM_P": "$(params.q)", "PARAM_Q": "y"}


@pytest.mark.parametrize(
    ("parameter", "value", "why"),
    [
        ({"type": "integer"}, "many", "it is no integer"),
        ({"type": "boolean"}, "yes", 'neither "true" nor "false"'),
        ({"enum": ["a", "b"]}, "c", "none of a, b"),
        ({"pattern": "v[0-9.]+"}, "v1; reboot", "does not match v"),
        ({"pattern": "a|b"}, "ab", "does not match"),
        ({}, "--force", 'begins with "-"'),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name(
    parameter: dict[str, Any], value: str, why: str
) -> None:
    typed = msgspec.convert({"name": "p", **parameter}, Parameter)
    with pytest.raises(StepsError, match="'p'") as refused:
        steps.values([typed], {"p": value})
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ({"type": "integer"}, "-7"),
        ({"type": "boolean"}, "true"),
        ({"type": "boolean"}, "false"),
        ({"enum": ["-a", "b"]}, "-a"),
        ({"pattern": "--?[a-z]+"}, "--force"),
        ({"pattern": "a|b"}, "b"),
        ({}, "a-b"),
    ],
)
def test_a_value_that_fits_is_used(parameter: dict[str, Any], value: str) -> None:
    typed = msgspec.convert({"name": "p", **parameter}, Parameter)
    assert steps.values([typed], {"p": value}) == {"p": value}


def test_a_default_has_to_fit_and_what_is_not_given_is_empty() -> None:
    bad = msgspec.convert({"name": "p", "type": "integer", "default": "many"}, Parameter)
    with pytest.raises(StepsError, match="cannot use 'many' for parameter 'p'"):
        steps.values([bad], {})
    assert steps.values([bad], {"p": "3"}) == {"p": "3"}
    left_out = msgspec.convert({"name": "p", "type": "integer"}, Parameter)
    assert steps.values([left_out], {}) == {"p": ""}
    odd = msgspec.convert({"name": "p", "pattern": "("}, Parameter)
    with pytest.raises(StepsError, match="cannot read pattern '\\(' of the template"):
        steps.values([odd], {"p": "x"})
    with pytest.raises(StepsError, match="the template has none"):
        steps.values([], {"q": "x"})


def test_unknown_and_missing_parameters_are_refused() -> None:
    typed = [msgspec.convert({"name": "p", "required": True}, Parameter)]
    with pytest.raises(StepsError, match="cannot use parameter 'q': the template has p"):
        steps.values(typed, {"q": "x"})
    with pytest.raises(StepsError, match="cannot do without parameter 'p'"):
        steps.values(typed, {})
    with pytest.raises(StepsError, match="no such parameter"):
        steps.work([refer()], {"t": template(run("a", "$(params.nope)"))})
    with pytest.raises(TemplateMissing, match="gone"):
        steps.work([refer("gone")], {})


def test_a_template_is_of_the_type_of_its_operation() -> None:
    realtime = template(configSet={"packages": [{"name": "chrony", "ensure": "installed"}]})
    with pytest.raises(StepsError, match="goes with type realtime"):
        steps.work([refer()], {"t": realtime})
    with pytest.raises(StepsError, match="needs one with a configSet"):
        steps.config_set_of(refer(), {"t": template(run("a"))})
    files = [{"path": "/etc/x", "ensure": "file", "content": "$(params.p)\n"}]
    declared = template(configSet={"files": files}, parameters=[{"name": "p"}])
    assert steps.config_set_of(refer(p="on"), {"t": declared}).files[0].content == "on\n"


def test_several_operations_are_one_list_with_one_reboot() -> None:
    found = steps.work(
        [
            operation("upgrade", {"name": "all", "packages": {"upgrade": "all"}}, BOOT, run("check")),
            operation("disk", run("trim")),
            operation(
                "kernel", run("install"), {"name": "boot", "reboot": {"when": "always"}, "timeout": "20m"}
            ),
            operation("note", run("touch")),
        ],
        {},
    )
    assert [step.name for step in found.steps] == [
        "upgrade-all", "disk-run", "kernel-run", "upgrade-boot", "upgrade-run", "note-run",
    ]  # fmt: skip
    boot = found.steps[3]
    assert boot.reboot is not None
    assert (boot.reboot.when, boot.timeout) == ("always", "20m")
    assert found.disruption == "reboot"


def test_whether_configsets_hold_after_the_work_is_proven_by_the_host_as_the_last_step() -> None:
    """What its status says may be older than the work."""
    gates: dict[str, Any] = {"after": [{"alive": True}, {"configSetsHold": True, "timeout": "3m"}]}
    health = msgspec.convert(gates, Health)
    found = steps.work([operation("note", run("touch"))], {}, health).steps
    assert [(step.name, step.timeout, step.on_failure) for step in found[1:]] == [
        ("health-after", "3m", "undo")
    ]
    assert found[1].probe is not None
    assert found[1].probe.config_sets_hold
    assert steps.work([operation("note", type="realtime")], {}, health).steps == ()
    many = [operation("note", *(run("a", name=f"n{place}") for place in range(MAX_STEPS)))]
    with pytest.raises(StepsError, match="cannot make one task of"):
        steps.work(many, {}, health)


def test_a_timeout_may_be_written_in_the_execution() -> None:
    one = {"name": "touch", "execution": {"argv": ["touch", "/x"], "timeout": "1m"}}
    step = steps.work([operation("note", one)], {}).steps[0]
    assert step.execution is not None
    assert (step.timeout, step.execution.timeout) == ("1m", "")


def test_names_stay_short_and_unlike_and_there_are_not_too_many_steps() -> None:
    long = [run("a", name=f"{'x' * 60}{number:02}") for number in range(3)]
    names = [step.name for step in steps.work([operation("o" * 31, *long)], {}).steps]
    assert len(set(names)) == 3
    assert all(len(name) == 63 for name in names)
    assert (
        steps.work([operation("o" * 31, run("a", name="x" * 31))], {}).steps[0].name
        == f"{'o' * 31}-{'x' * 31}"
    )
    dashed = steps.work([operation("o" * 31, run("a", name="x" * 22 + "-" * 10))], {}).steps[0].name
    assert dashed.startswith(f"{'o' * 31}-{'x' * 22}-")
    assert "--" not in dashed
    many = [
        operation(f"o{number}", *(run("a", name=f"s{place}") for place in range(16))) for number in range(5)
    ]
    with pytest.raises(StepsError, match="80 steps"):
        steps.work(many, {})
    assert len(steps.work(many[:4], {}).steps) == 64


def test_a_digest_tells_whether_anything_of_it_is_another() -> None:
    one = steps.work([operation("a", run("x"))], {})
    assert one.digest == steps.work([operation("a", run("x"))], {}).digest
    assert one.digest != steps.work([operation("a", run("y"))], {}).digest


def test_what_was_done_is_taken_back_the_last_first() -> None:
    raw = [
        {"name": "up", "packages": {"upgrade": "all"}},
        run("a", name="one", undo={"execution": {"argv": ["b"]}}),
        run("c", name="two", undo={"execution": {"argv": ["d"]}}),
    ]
    done = msgspec.convert(raw, list[TaskStep])
    became = [
        TaskStepStatus(name="up", changed=True),
        TaskStepStatus(name="one", changed=True),
        TaskStepStatus(name="two", changed=False),
    ]
    meta, status = ObjectMeta(name="t", uid="task-uid"), NodeTaskStatus(steps=became)
    back = undoing.inverse(NodeTask(meta, NodeTaskSpec(steps=done), status))
    assert [step.name for step in back] == ["one", "up"]
    assert back[1].packages == PackagesAction(restore=PackagesBefore(task="task-uid", step="up"))
    assert undoing.is_possible(done)
    assert not undoing.is_possible(msgspec.convert([run("a")], list[TaskStep]))


def test_evidence_that_was_cut_says_so() -> None:
    changed = {f"p{number:03}": "1 -> 2" for number in range(MAX_EVIDENCE)}
    assert packages.shown(changed) == changed
    assert packages.shown({**changed, "q": "1 -> 2"})["..."] == "and 1 more"
