"""What is done to a host in one visit: the steps of all operations that are due, as one list with one reboot.

Parameters of a template are filled in where a text has $(params.NAME): a text stays one text, so that no
value can add a word to a command. Scripts stay as they are, and find parameters in their environment, as
PARAM_NAME.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from nodemanager.api.maintenance import nodetask
from nodemanager.api.maintenance.health_gates import Health
from nodemanager.api.maintenance.nodeoperationtemplate import (
    BOOLEAN,
    INTEGER,
    NodeOperationTemplateSpec,
    Parameter,
)
from nodemanager.api.maintenance.operations import REALTIME, Operation
from nodemanager.api.maintenance.realtime_set import RealtimeSet
from nodemanager.api.maintenance.task_steps import (
    CONTINUE,
    STOP,
    UNDO,
    OperationStep,
    ProbeAction,
    RebootAction,
    TaskStep,
)
from nodemanager.kube.go import durations
from nodemanager.kube.schemas import patterns

MAX_NAME: Final = 63
PROOF: Final = "health-after"
PROOF_TIMEOUT: Final = "10m"
SHELLS: Final = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"))
INTERPRETERS: Final = SHELLS | {"python", "python3", "perl", "ruby", "su"}
_CODE_OPTION: Final = re.compile(r"-[A-Za-z]*[ceE][A-Za-z]*|--command(=.*)?", re.DOTALL)
_CODE: Final = (
    "cannot fill in parameters in {}: they would be read as code; write a script that uses"
    ' "$PARAM_NAME" instead of $(params.name)'
)
_REFERENCE: Final = re.compile(r"\$\(params\.([^)]*)\)")
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_SEVERITY: Final = (CONTINUE, STOP, UNDO)
_TIMEOUT: Final = "10m"
"""The timeout of a step that does not declare one."""


class StepsError(ValueError):
    """Steps cannot be made from the template; the message names field and value."""


class TemplateMissing(LookupError):
    """There is no template of that name."""


@dataclass(frozen=True, slots=True)
class RunWork:
    """The work that is done on every host of a run."""

    steps: tuple[TaskStep, ...]
    digest: str

    @property
    def may_reboot(self) -> bool:
        """Whether it may reboot the host."""
        return any(step.reboot is not None for step in self.steps)

    @property
    def disruption(self) -> str:
        """The strongest effect on the host: none, restart or reboot."""
        if self.may_reboot:
            return "reboot"
        return "restart" if any(step.service or step.packages for step in self.steps) else "none"


def work(
    operations: Iterable[Operation],
    templates: Mapping[str, NodeOperationTemplateSpec],
    health: Health | None = None,
) -> RunWork:
    """Return the steps of operations that are due together, in their order, and what proves them."""
    parts = [(one.name, of_operation(one, templates)) for one in operations if one.type != REALTIME]
    steps = tuple(merged(parts))
    steps += tuple(_proofs(health)) if steps else ()
    if len(steps) > nodetask.MAX_STEPS:
        raise StepsError(
            f"cannot make one task of {len(steps)} steps: it takes {nodetask.MAX_STEPS}; give operations"
            " other schedules, or make fewer steps of them"
        )
    return RunWork(steps, digest(steps))


def _proofs(health: Health | None) -> Iterator[TaskStep]:
    """Yield what only the host itself can prove: whether its ConfigSets hold after the work.

    Its status may have been written before it. And an agent can take back all that it has done.
    """
    gates = [gate for gate in health.after if gate.config_sets_hold] if health is not None else []
    for gate in gates[:1]:
        timeout = gate.timeout or PROOF_TIMEOUT
        yield TaskStep(name=PROOF, probe=ProbeAction(config_sets_hold=True), timeout=timeout, on_failure=UNDO)


def of_operation(
    operation: Operation, templates: Mapping[str, NodeOperationTemplateSpec]
) -> tuple[TaskStep, ...]:
    """Return the steps of one operation, with what its parameters say."""
    if operation.template_ref is None:
        return tuple(msgspec.convert(msgspec.to_builtins(one), TaskStep) for one in operation.steps)
    template = _template(operation, templates)
    if not template.steps:
        raise StepsError(
            f"cannot use template {operation.template_ref.name} in operation {operation.name}: it declares a"
            " configSet, which goes with type realtime"
        )
    return tuple(filled(template.steps, values(template.parameters, operation.parameters)))


def config_set_of(operation: Operation, templates: Mapping[str, NodeOperationTemplateSpec]) -> RealtimeSet:
    """Return what an operation of type realtime declares, with what its parameters say."""
    if operation.template_ref is None:
        return operation.config_set or RealtimeSet()
    template = _template(operation, templates)
    if template.config_set is None:
        raise StepsError(
            f"cannot use template {operation.template_ref.name} in operation {operation.name}: it has steps,"
            " which are done once; type realtime needs one with a configSet"
        )
    given = values(template.parameters, operation.parameters)
    declared = msgspec.to_builtins(template.config_set)
    _refuse_code(declared, "configSet")
    filled_in = _fill(declared, given, "configSet")
    return msgspec.convert(filled_in, RealtimeSet)


def _template(
    operation: Operation, templates: Mapping[str, NodeOperationTemplateSpec]
) -> NodeOperationTemplateSpec:
    name = operation.template_ref.name if operation.template_ref is not None else ""
    if name not in templates:
        raise TemplateMissing(name)
    return templates[name]


def values(parameters: Sequence[Parameter], given: Mapping[str, str]) -> dict[str, str]:
    """Return the value of every parameter; raise StepsError for unknown, missing and bad ones."""
    known = {one.name for one in parameters}
    for name in sorted(given):
        if name not in known:
            has = ", ".join(sorted(known)) or "none"
            raise StepsError(f"cannot use parameter {name!r}: the template has {has}")
    found = {}
    for one in parameters:
        if one.name not in given and one.required:
            raise StepsError(f"cannot do without parameter {one.name!r}: the template requires it")
        value = given.get(one.name, one.default or "")
        if one.name in given or one.default is not None:
            _check(one, value)
        found[one.name] = value
    return found


def _check(parameter: Parameter, value: str) -> None:
    why = ""
    if parameter.type == INTEGER and not _INTEGER.fullmatch(value):
        why = "it is no integer"
    elif parameter.type == BOOLEAN and value not in ("true", "false"):
        why = 'it is neither "true" nor "false"'
    elif parameter.enum and value not in parameter.enum:
        why = f"it is none of {', '.join(parameter.enum)}"
    elif parameter.pattern and not _matches(parameter.pattern, value):
        why = f"it does not match {parameter.pattern}"
    elif value.startswith("-") and not (parameter.pattern or parameter.enum or parameter.type == INTEGER):
        why = 'it begins with "-", which commands take for an option; give the parameter a pattern if it may'
    if why:
        raise StepsError(f"cannot use {value!r} for parameter {parameter.name!r}: {why}")


def _matches(pattern: str, value: str) -> bool:
    try:
        return patterns.compile_pattern(f"^(?:{pattern})$").search(value)
    except ValueError as error:
        raise StepsError(f"cannot read pattern {pattern!r} of the template: {error}") from error


def filled(steps: Sequence[OperationStep], given: Mapping[str, str]) -> list[TaskStep]:
    """Return the steps of a template with its parameters filled in."""
    environment = {
        f"PARAM_{re.sub('[^A-Za-z0-9]', '_', name).upper()}": value for name, value in given.items()
    }
    found = []
    for step in steps:
        where = f"steps[{step.name}]"
        raw = msgspec.to_builtins(step)
        _refuse_code(raw, where)
        raw = _fill(raw, given, where)
        for holder in (raw, raw.get("undo") or {}):  # after that: no value is looked into once more
            if (execution := holder.get("execution") or {}).get("script") and environment:
                execution["env"] = environment | execution.get("env", {})
        found.append(msgspec.convert(raw, TaskStep))
    return found


def _refuse_code(value: Any, where: str) -> None:
    """Refuse parameters in what a shell, an interpreter or a template engine reads: a value could be code."""
    if isinstance(value, list):
        texts = [one for one in value if isinstance(one, str)]
        if any(_REFERENCE.search(code) for code in _code_in(texts)):
            raise StepsError(_CODE.format(where))
        for one in value:
            _refuse_code(one, where)
    elif isinstance(value, dict):
        command = [str(value.get("command") or ""), *(value.get("args") or ())]
        read = [value.get("script"), value.get("template"), *_code_in(command)]
        if any(isinstance(text, str) and _REFERENCE.search(text) for text in read):
            raise StepsError(_CODE.format(where))
        for key, one in value.items():
            _refuse_code(one, f"{where}.{key}")


def _code_in(argv: Sequence[str]) -> Iterator[str]:
    """Yield the arguments that an interpreter of the command line reads as a program."""
    reads = follows = False
    for word in argv:
        if follows:
            yield word
            follows = word.startswith("-")  # more options may come before the program: sh -c -x -- PROGRAM
        if reads and _CODE_OPTION.fullmatch(word):
            yield word
            follows = True
        reads = reads or word.rpartition("/")[2] in INTERPRETERS


def _fill(value: Any, given: Mapping[str, str], where: str) -> Any:
    """Return a value with parameters filled into its texts; keys and numbers stay, and so does every list."""
    if isinstance(value, str):
        return _REFERENCE.sub(lambda found: _known(found[1], given, where), value)
    if isinstance(value, list):
        return [_fill(one, given, where) for one in value]
    if isinstance(value, dict):
        return {key: _fill(one, given, f"{where}.{key}") for key, one in value.items()}
    return value


def _known(name: str, given: Mapping[str, str], where: str) -> str:
    if name not in given:
        raise StepsError(f"cannot fill in $(params.{name}) in {where}: the template has no such parameter")
    return given[name]


def merged(parts: Sequence[tuple[str, Sequence[TaskStep]]]) -> list[TaskStep]:
    """Return the steps of several operations as one list: all before a reboot, one reboot, all after it."""
    before: list[TaskStep] = []
    after: list[TaskStep] = []
    reboots: list[TaskStep] = []
    last = max((place for place, (_, steps) in enumerate(parts) if any(s.reboot for s in steps)), default=-1)
    for place, (operation, steps) in enumerate(parts):
        named = [_named(operation, step) for step in steps]
        first = next((i for i, step in enumerate(named) if step.reboot is not None), None)
        if first is None:
            (before if place <= last or last < 0 else after).extend(named)
        else:
            before += named[:first]
            reboots.append(named[first])
            after += named[first + 1 :]
    return [*before, *_one_reboot(reboots), *after]


def _named(operation: str, step: TaskStep) -> TaskStep:
    name = f"{operation}-{step.name}"
    if len(name) > MAX_NAME:
        short = hashlib.sha256(name.encode()).hexdigest()[:8]
        name = f"{name[: MAX_NAME - 9].rstrip('-')}-{short}"
    changes: dict[str, Any] = {"name": name}
    if step.execution is not None and step.execution.timeout:
        changes["timeout"] = step.execution.timeout
        changes["execution"] = msgspec.structs.replace(step.execution, timeout="")
    return msgspec.structs.replace(step, **changes)


def _one_reboot(reboots: Sequence[TaskStep]) -> list[TaskStep]:
    if not reboots:
        return []
    always = any(step.reboot is not None and step.reboot.when == "always" for step in reboots)
    # A field that a step leaves out has its default, so two steps compare with defaults filled in.
    return [
        msgspec.structs.replace(
            reboots[0],
            reboot=RebootAction(when="always" if always else "ifNeeded"),
            timeout=max(
                (step.timeout for step in reboots), key=lambda text: durations.parse(text or _TIMEOUT)
            ),
            retries=max(step.retries for step in reboots),
            on_failure=max(
                (step.on_failure for step in reboots), key=lambda how: _SEVERITY.index(how or STOP)
            ),
        )
    ]


def digest(value: object) -> str:
    """Return the hash of the steps: equal steps have the same hash, in whatever form they were written."""
    return hashlib.sha256(msgspec.json.encode(msgspec.to_builtins(value), order="sorted")).hexdigest()
