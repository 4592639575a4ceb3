"""The shipped templates become steps and declarations: by default, with parameters, and not with bad ones."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

from nodemanager.fleet.maintenance import steps
from support.template_scripts import REQUIRED, operation, shipped

BAD = yaml.safe_load(
    (Path(__file__).resolve().parents[2] / "cases/operation_template_parameters/refused.yaml").read_text()
)
WITH_STEPS = [name for name, spec in shipped().items() if spec.steps]
REALTIME = [name for name, spec in shipped().items() if spec.config_set]


def chosen(name: str) -> dict[str, str]:
    """Values that are not the defaults, for all parameters that are a choice."""
    found = dict(REQUIRED.get(name, {}))
    for one in shipped()[name].parameters:
        choices = list(one.enum) or (["true", "false"] if one.type == "boolean" else [])
        for value in choices:
            if value != one.default:
                found[one.name] = value
    return found


@pytest.mark.parametrize("name", WITH_STEPS)
def test_steps(name: str) -> None:
    for parameters in (REQUIRED.get(name, {}), chosen(name)):
        work = steps.work([operation(name, parameters)], shipped())
        assert [one.name for one in work.steps] == [f"op-{one.name}" for one in shipped()[name].steps]
        assert "$(params." not in str(msgspec.to_builtins(work.steps))
        given = steps.values(shipped()[name].parameters, parameters)
        for execution in (one.execution for one in work.steps if one.execution):
            assert {
                f"PARAM_{key.upper()}": value for key, value in given.items()
            }.items() <= execution.env.items()


@pytest.mark.parametrize("name", REALTIME)
def test_declarations(name: str) -> None:
    default = steps.config_set_of(operation(name, {}), shipped())
    other = steps.config_set_of(operation(name, chosen(name)), shipped())
    assert default != other
    assert "$(params." not in str(msgspec.to_builtins((default, other)))
    for value in chosen(name).values():
        assert value in other.files[0].content


@pytest.mark.parametrize(("name", "parameters", "said"), BAD, ids=[f"{one[0]} {one[1]}" for one in BAD])
def test_bad_parameters_are_refused_by_name(name: str, parameters: dict[str, str], said: str) -> None:
    make = steps.config_set_of if name in REALTIME else steps.of_operation
    with pytest.raises(steps.StepsError) as refused:
        make(operation(name, parameters), shipped())
    assert said in str(refused.value)


def test_every_parameter_is_refused_once() -> None:
    known = {(name, one.name) for name, spec in shipped().items() for one in spec.parameters}
    tried = {(one[0], key) for one in BAD for key in one[1]}
    assert known <= tried


def test_one_visit_has_one_reboot_after_all_upgrades() -> None:
    work = steps.work([operation("package-upgrade", {}), operation("reboot-if-needed", {})], shipped())
    assert sum(one.reboot is not None for one in work.steps) == 1
    assert [one.action for one in work.steps][3] == "reboot"
