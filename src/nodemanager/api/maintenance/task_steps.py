"""What one step of a task can be: exactly one action, how long it may take, and what a failure means."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from nodemanager.api.common.declarations import Arguments, File
from nodemanager.api.maintenance.agent_upgrade import AgentUpgradeAction
from nodemanager.api.maintenance.edge_steps import (
    EDGE_ACTIONS,
    BondArmAction,
    BondCommitAction,
    BondFlipAction,
    BondRevertAction,
    BondStageAction,
    DrbdPauseAction,
    DrbdResumeAction,
    DrbdVerifyAction,
    KairosStageAction,
    KairosUpgradeAction,
    LinkProbeAction,
    OemFileAction,
)
from nodemanager.api.maintenance.task_previews import ProposalRef
from nodemanager.kube import object_names
from nodemanager.kube.hints import (
    ABSOLUTE_PATH,
    DURATION_MAX,
    NAME_MAX,
    PACKAGE,
    PACKAGE_MAX,
    PACKAGE_VERSION,
    PATH_MAX,
    POSITIVE_DURATION,
    PRINTABLE,
    UNIT,
    WORD,
    Rule,
    meta,
)
from nodemanager.kube.objects import Struct

STOP: Final = "stop"
CONTINUE: Final = "continue"
UNDO: Final = "undo"
OPERATION_ACTIONS: Final = (
    "packages", "service", "execution", "reboot", "probe", "file", "preview", "agent_upgrade",
)  # fmt: skip
"""The fields of which a step of an operation has exactly one."""
ACTIONS: Final = (*OPERATION_ACTIONS, *EDGE_ACTIONS)
"""The same of a task, which may also have those of edge sites: workflows order them, not maintenances."""
INVERTIBLE: Final = ("packages", "service", "execution", "file")
"""Those that can be the inverse of a step."""
SYSTEM: Final = "system"
"""Upgrade everything, as ManagedNode.spec.upgrade does."""
_ENV_NAME: Final = "^[A-Za-z_][A-Za-z0-9_]*$"


class TaskPackage(Struct):
    """A package to install at any or at one version, or to remove."""

    name: Annotated[
        str, meta("Name as the package manager knows it.", WORD, pattern=PACKAGE, required=True,
                  min_length=1, max_length=PACKAGE_MAX),
    ] = ""  # fmt: skip
    version: Annotated[
        str, meta("Exact version; omitted = any.", WORD, pattern=PACKAGE_VERSION, max_length=PACKAGE_MAX)
    ] = ""


class PackagesBefore(Struct):
    """What a step of an earlier task found, as the agent of its host has written it down."""

    task: Annotated[str, meta("UID of the NodeTask.", required=True, min_length=1, max_length=63)] = ""
    step: Annotated[str, meta("Name of its step.", required=True, min_length=1, max_length=63)] = ""


class PackagesAction(Struct):
    """Upgrade, install or remove packages; those that are held or that a ConfigSet pins stay as they are."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.upgrade) && self.upgrade != '', has(self.install) && size(self.install) > 0,"
            " has(self.remove) && size(self.remove) > 0, has(self.restore)].exists_one(given, given)",
            "must have exactly one of upgrade, install, remove and restore",
        ),
    )

    upgrade: Annotated[
        str,
        meta("all upgrades every package; security only where a security update is offered; system every"
             " package and what is none, such as FreeBSD's base system, at most once.",
             enum=("all", "security", SYSTEM)),
    ] = ""  # fmt: skip
    install: Annotated[list[TaskPackage], meta("Packages to have.", max_items=512)] = []
    remove: Annotated[
        list[Annotated[str, meta("Name of a package.", WORD, pattern=PACKAGE, max_length=PACKAGE_MAX)]],
        meta("Packages to remove.", max_items=512),
    ] = []
    restore: Annotated[
        PackagesBefore | None,
        meta("Bring back all versions that a step of an earlier task found. The operator writes this.",
             atomic=True),
    ] = None  # fmt: skip


class ServiceAction(Struct):
    """Do something to a service, once."""

    name: Annotated[
        str, meta("Name of the service or unit.", pattern=UNIT, required=True, min_length=1, max_length=256)
    ] = ""
    do: Annotated[
        str,
        meta("What to do.", enum=("start", "stop", "restart", "reload", "enable", "disable"), required=True),
    ] = ""


class SecretVariable(Struct):
    """A variable of the environment whose value is in a Secret."""

    name: Annotated[
        str, meta("Name of the variable.", pattern=_ENV_NAME, required=True, min_length=1, max_length=256)
    ] = ""
    secret: Annotated[
        str,
        meta("Name of the Secret, in the same namespace.", pattern=f"^{object_names.FORM}$", required=True,
             min_length=1, max_length=NAME_MAX),
    ] = ""  # fmt: skip
    key: Annotated[str, meta("Its key.", required=True, min_length=1, max_length=NAME_MAX)] = ""


class ExecutionAction(Struct):
    """Run a program, or a script that the user wrote."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(has(self.argv) && size(self.argv) > 0) != (has(self.script) && self.script != '')",
            "must have either argv or script",
        ),
    )

    argv: Annotated[
        Arguments, meta("The program and its arguments; no shell looks at them.", max_items=1024)
    ] = []
    script: Annotated[
        str,
        meta("A script; its first line says who reads it, such as #!/bin/sh, which is also the default.",
             max_length=65536),
    ] = ""  # fmt: skip
    env: Annotated[
        dict[str, Annotated[str, meta("Its value.", max_length=32768)]],
        meta("Variables of its environment.", max_properties=64),
    ] = {}
    secret_env: Annotated[
        list[SecretVariable],
        meta("Variables whose values are in Secrets; they appear in no output.", list_map_keys=("name",),
             max_items=64),
    ] = []  # fmt: skip
    user: Annotated[str, meta("Who runs it; default root.", WORD, pattern=PRINTABLE, max_length=256)] = ""
    working_directory: Annotated[
        str,
        meta("Where it runs; default /.",
             Rule("self == '' || self.startsWith('/')", ABSOLUTE_PATH.message), max_length=PATH_MAX),
    ] = ""  # fmt: skip
    accepted_exit_codes: Annotated[
        list[Annotated[int, meta("An exit code.", minimum=0, maximum=255)]],
        meta("Exit codes that count as success; default 0 alone.", max_items=64),
    ] = []
    timeout: Annotated[
        str,
        meta("The same as timeout of the step, which is where a task has it.",
             Rule("self == '' || " + POSITIVE_DURATION.rule, POSITIVE_DURATION.message),
             max_length=DURATION_MAX),
    ] = ""  # fmt: skip


class RebootAction(Struct):
    """Reboot the host."""

    when: Annotated[
        str,
        meta("ifNeeded asks the package manager; always reboots in any case.", enum=("ifNeeded", "always"),
             required=True),
    ] = ""  # fmt: skip


class HttpProbe(Struct):
    """An address that must answer."""

    url: Annotated[
        str,
        meta("The address, http or https.",
             Rule("self.startsWith('http://') || self.startsWith('https://')", "must be http:// or https://"),
             required=True, min_length=1, max_length=2048),
    ] = ""  # fmt: skip
    status: Annotated[int, meta("The status code that is wanted; default 200.", minimum=100, maximum=599)] = 0


class ProbeAction(Struct):
    """Something that must hold before the task goes on."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.argv) && size(self.argv) > 0, has(self.http), has(self.unit) && self.unit != '',"
            " has(self.configSetsHold) && self.configSetsHold].exists_one(given, given)",
            "must have exactly one of argv, http, unit and configSetsHold",
        ),
    )

    argv: Annotated[Arguments, meta("A program that must end with exit code 0.", max_items=1024)] = []
    http: Annotated[HttpProbe | None, meta("An address that must answer.", atomic=True)] = None
    unit: Annotated[str, meta("A service that must run.", pattern=f"^$|{UNIT}", max_length=256)] = ""
    config_sets_hold: Annotated[bool, meta("All ConfigSets of the host must hold.")] = False


class PreviewAction(Struct):
    """Tell what would be done, and do nothing."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.packages) && self.packages != '' || has(self.configSets) && self.configSets"
            " || has(self.proposal)",
            "must have packages, configSets or proposal",
        ),
    )

    packages: Annotated[str, meta("What an upgrade would do.", enum=("all", "security"))] = ""
    config_sets: Annotated[bool, meta("What a pass over the ConfigSets would do.")] = False
    proposal: Annotated[
        ProposalRef | None, meta("What ConfigSets would do that somebody proposes.", atomic=True)
    ] = None


class TaskAction(Struct):
    """One action: exactly one of its fields is given."""

    packages: Annotated[PackagesAction | None, meta("Packages.", atomic=True)] = None
    service: Annotated[ServiceAction | None, meta("A service.", atomic=True)] = None
    execution: Annotated[ExecutionAction | None, meta("A program.", atomic=True)] = None
    file: Annotated[File | None, meta("A file, as in a ConfigSet, put in place once.", atomic=True)] = None


def field_name(action: str) -> str:
    """Return what an action is called in a manifest."""
    first, *more = action.split("_")
    return first + "".join(word.capitalize() for word in more)


def _one_of(actions: tuple[str, ...]) -> Rule:
    fields = [field_name(action) for action in actions]
    given = ", ".join(f"has(self.{field})" for field in fields)
    return Rule(
        f"[{given}].exists_one(given, given)",
        f"must have exactly one of {', '.join(fields[:-1])} and {fields[-1]}",
    )


class OperationStep(Struct):
    """One step of an operation, and of the tasks that are made of it."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        _one_of(OPERATION_ACTIONS),
        Rule(
            "!has(self.execution) || !has(self.execution.timeout) || !has(self.timeout)",
            "is given twice: once is enough, here or in execution",
            ".timeout",
        ),
        Rule(
            "!has(self.undo) || !(has(self.reboot) || has(self.probe) || has(self.preview))",
            "must not be given: a reboot, a probe and a preview have no inverse",
            ".undo",
        ),
    )

    name: Annotated[
        str,
        meta("Name of the step, unlike all others of the task.", pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
             required=True, min_length=1, max_length=63),
    ] = ""  # fmt: skip
    packages: Annotated[PackagesAction | None, meta("Packages.", atomic=True)] = None
    service: Annotated[ServiceAction | None, meta("A service.", atomic=True)] = None
    execution: Annotated[ExecutionAction | None, meta("A program.", atomic=True)] = None
    reboot: Annotated[RebootAction | None, meta("A reboot.", atomic=True)] = None
    probe: Annotated[ProbeAction | None, meta("Something that must hold.", atomic=True)] = None
    file: Annotated[File | None, meta("A file, as in a ConfigSet, put in place once.", atomic=True)] = None
    preview: Annotated[PreviewAction | None, meta("What would be done.", atomic=True)] = None
    agent_upgrade: Annotated[
        AgentUpgradeAction | None, meta("Another version of the agent itself.", atomic=True)
    ] = None
    timeout: Annotated[
        str,
        meta("How long one try may take; default 10m.",
             Rule("self == '' || " + POSITIVE_DURATION.rule, POSITIVE_DURATION.message),
             max_length=DURATION_MAX),
    ] = ""  # fmt: skip
    retries: Annotated[
        int,
        meta("How often it is tried again after a failure, also after one that nobody saw the end of. "
             "Default 0.", minimum=0, maximum=100),
    ] = 0  # fmt: skip
    on_failure: Annotated[
        str,
        meta("stop (default) ends the task; continue goes on with the next step; undo takes back this and "
             "all steps before it, the last one first.", enum=(STOP, CONTINUE, UNDO)),
    ] = ""  # fmt: skip
    undo: Annotated[
        TaskAction | None,
        meta("What takes the step back. A step with packages knows its inverse: the versions that were "
             "there.", _one_of(INVERTIBLE), atomic=True),
    ] = None  # fmt: skip

    @property
    def action(self) -> str:
        """Which of the actions it is; empty = one of a newer version."""
        return next((name for name in ACTIONS if getattr(self, name, None) is not None), "")


class TaskStep(OperationStep):
    """One step of a task."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        _one_of(ACTIONS),
        *OperationStep.RULES[1:],
        Rule(
            "!has(self.undo) || !(has(self.linkProbe) || has(self.drbdVerify))",
            "must not be given: a probe and a verify have no inverse",
            ".undo",
        ),
    )

    bond_stage: Annotated[BondStageAction | None, meta("Another mode of a bond, prepared.", atomic=True)] = (
        None
    )
    bond_arm: Annotated[BondArmAction | None, meta("The dead-man that puts a bond back.", atomic=True)] = None
    bond_flip: Annotated[BondFlipAction | None, meta("The mode of a bond, in the kernel.", atomic=True)] = (
        None
    )
    bond_commit: Annotated[BondCommitAction | None, meta("The mode of a bond, for good.", atomic=True)] = None
    bond_revert: Annotated[BondRevertAction | None, meta("A bond as it was.", atomic=True)] = None
    link_probe: Annotated[LinkProbeAction | None, meta("What links have to carry.", atomic=True)] = None
    drbd_pause: Annotated[DrbdPauseAction | None, meta("No resync of a resource of DRBD.", atomic=True)] = (
        None
    )
    drbd_resume: Annotated[DrbdResumeAction | None, meta("Resyncs of a resource again.", atomic=True)] = None
    drbd_verify: Annotated[DrbdVerifyAction | None, meta("A resource of DRBD, compared.", atomic=True)] = None
    oem_file: Annotated[OemFileAction | None, meta("A file in /oem of Kairos.", atomic=True)] = None
    kairos_upgrade: Annotated[KairosUpgradeAction | None, meta("Another image of Kairos.", atomic=True)] = (
        None
    )
    kairos_stage: Annotated[KairosStageAction | None, meta("A stage of Kairos.", atomic=True)] = None
