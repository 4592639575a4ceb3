"""The steps on a host, one class for each action; a step gives a reason, and does nothing by itself.

A step also says how it reads and whether it repairs something, so that no other list of steps is needed. One
that forgets to say so cannot even be defined. A kind may define steps of its own beside its planner. They are
no dataclasses, of which these few would take a twelfth of the time that a program needs to start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

import msgspec

from nodemanager.api.common.declarations import Execution, Validation
from nodemanager.kube.objects import FrozenMeta
from nodemanager.plan import resources
from nodemanager.plan.desired import Content
from nodemanager.plan.facts import FileFact
from nodemanager.plan.resources import ResourceId

LINE_MAX: Final = 200
"""Characters of a command line that are shown."""


class Words(NamedTuple):
    """How a step reads."""

    verb: str
    """The word in a plan: `install`."""
    done: str
    """The word in Events and the log after it is done: `installed`."""


class Lack(NamedTuple):
    """Something that another step may bring."""

    what: str
    then: str
    """What is done once it is there: `will start`."""
    files: tuple[str, ...] = ()
    """Ends of paths of files that bring it; a package may bring it in any case."""


class Step(msgspec.Struct, metaclass=FrozenMeta, frozen=True, kw_only=True):
    """Something about one resource."""

    ABSTRACT: ClassVar[bool] = True
    """Only a base of steps; each class says so for itself."""
    ACTS: ClassVar[bool] = True
    """Whether it changes something on the host."""
    REPAIRS: ClassVar[bool]
    """Whether the resource is not as declared: if it was before, that is drift. A restart or a run repairs
    nothing."""
    WORDS: ClassVar[Words]
    OPERATIONS: ClassVar[tuple[str, ...]] = ()
    """What it does, in words of metrics."""

    id: ResourceId
    sources: tuple[str, ...]
    """The ConfigSets it is done for."""
    reason: str
    """Why, in a few words: `content differs`, `is not running`; of a no-op: why nothing is needed."""

    def __init_subclass__(cls) -> None:
        if cls.__dict__.get("ABSTRACT"):
            return
        if "WORDS" not in cls.__dict__ or not hasattr(cls, "REPAIRS"):
            raise TypeError(f"step {cls.__name__} says too little of itself: give it WORDS and REPAIRS")

    @property
    def words(self) -> Words:
        """How this one reads."""
        return self.WORDS

    @property
    def owning_resource(self) -> ResourceId:
        """The declared resource whose drift policy it follows."""
        return self.id

    @property
    def follows_policy(self) -> bool:
        """Whether it puts something back that a drift policy may say to leave alone."""
        return self.ACTS and self.REPAIRS

    @property
    def news(self) -> bool:
        """Whether it is needed although the host was not changed."""
        return False

    @property
    def operations(self) -> tuple[str, ...]:
        """What this one does, in words of metrics."""
        return self.OPERATIONS

    @property
    def lock(self) -> str:
        """The lock, shared between hosts, that it has to hold; empty = none."""
        return ""

    @property
    def details(self) -> tuple[str, ...]:
        """What it is about, beyond its reason, for people."""
        return ()


class Noop(Step, kw_only=True):
    """Nothing: the resource is as declared."""

    ACTS = False
    REPAIRS = False
    WORDS = Words("keep", "kept")


class Blocked(Step, kw_only=True):
    """Nothing, although something would be needed: the reason says what is in the way and what to do."""

    ACTS = False
    REPAIRS = True
    WORDS = Words("cannot", "held back")

    lack: Lack | None = None
    """What is missing, if that is all that is in the way."""


class Expected(Step, kw_only=True):
    """In previews only: an action that becomes possible through earlier steps."""

    REPAIRS = True
    WORDS = Words("later", "done later")

    verb: str

    @property
    def words(self) -> Words:
        """What will be done."""
        return Words(self.verb, "done later")


class Waiting(Blocked, kw_only=True):
    """No action yet: something that it needs may still come, so a person need not act."""

    REPAIRS = False
    WORDS = Words("cannot yet", "put off")

    awaits: str = ""
    """What others are to bring, such as `Secret db`; empty = we bring it ourselves, and are at it."""


class Observed(Step, kw_only=True):
    """No action, although another program changed it: its drift policy leaves it alone."""

    ACTS = False
    REPAIRS = True
    WORDS = Words("leave", "left alone")

    would: Step
    """What would put it back."""


class HeldStep(Observed, kw_only=True):
    """Nothing, although something is to be done: the host is held, so it waits for the end of that."""

    REPAIRS = True
    WORDS = Words("hold", "held back")


class ShutStep(Observed, kw_only=True):
    """Nothing, although something is to be done: the window of its ConfigSet is shut."""

    REPAIRS = True
    WORDS = Words("put off", "put off")


class InstallPackage(Step, kw_only=True):
    """Install, upgrade or downgrade a package."""

    REPAIRS = True
    WORDS = Words("install", "installed")
    OPERATIONS = ("install",)

    name: str
    version: str = ""
    """The exact version; empty = the newest that is offered."""
    newer: bool = False
    """Whether only a newer version is offered, so that the host was not changed."""

    @property
    def follows_policy(self) -> bool:
        """Whether another program changed it: a newer version on offer is no drift."""
        return not self.newer

    @property
    def news(self) -> bool:
        """Whether only a newer version is offered."""
        return self.newer

    @property
    def details(self) -> tuple[str, ...]:
        """The version, if it matters which."""
        return (f"version {self.version}",) if self.version else ()


class RemovePackage(Step, kw_only=True):
    """Remove a package, and nothing else."""

    REPAIRS = True
    WORDS = Words("remove", "removed")
    OPERATIONS = ("remove",)

    name: str


class FileStep(Step, kw_only=True):
    """Something about one path."""

    ABSTRACT = True
    REPAIRS = True

    path: str
    before: FileFact
    notifies: tuple[ResourceId, ...] = ()
    """Services and executions that are owed a restart or run once this is done."""
    needs: tuple[ResourceId, ...] = ()
    """Steps that must succeed first: the directory that it is in."""


class WriteFile(FileStep, kw_only=True):
    """Put content at a path; what is there now is replaced at once, and kept in the bucket."""

    WORDS = Words("write", "written")

    content: Content
    mode: int
    uid: int
    gid: int
    validation: Validation | None = None


class SetAttributes(FileStep, kw_only=True):
    """Set owner, group and mode of what is there; None = as it is."""

    WORDS = Words("set attributes", "given its attributes")

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None


class MakeDirectory(FileStep, kw_only=True):
    """Make a directory and, with mode 0755 and root as their owner, the parents that are missing."""

    WORDS = Words("make directory", "made")

    mode: int
    uid: int
    gid: int


class MakeLink(FileStep, kw_only=True):
    """Make a symbolic link, in place of the link or file that is there."""

    WORDS = Words("link", "linked")

    target: str
    uid: int
    gid: int

    @property
    def details(self) -> tuple[str, ...]:
        """Where it points to."""
        return (f"-> {self.target}",)


class RemovePath(FileStep, kw_only=True):
    """Remove a file (kept in the bucket), a link, or a directory that is empty."""

    WORDS = Words("remove", "removed")

    purged: bool = False
    """Whether an undeclared path is removed because its directory is purged."""

    @property
    def owning_resource(self) -> ResourceId:
        """The path itself; of what is purged, the directory that it is in."""
        return resources.file_id(self.path.rpartition("/")[0] or "/") if self.purged else self.id


class ChangeService(Step, kw_only=True):
    """Enable, disable, start or stop a service, set its arguments; None = as it is."""

    REPAIRS = True
    WORDS = Words("change", "changed")

    name: str
    user: str = ""
    enable: bool | None = None
    arguments: str | None = None
    run: bool | None = None
    """True starts it, False stops it."""
    refresh: bool = False
    """The service manager has to read its unit files again first."""

    @property
    def words(self) -> Words:
        """What is done to it: `enable, start`, or nothing but to read its unit file again."""
        done = {"enable": "enabled", "disable": "disabled", "start": "started", "stop": "stopped"}
        verbs = list(self.operations)
        if self.arguments is not None:
            verbs.append("set arguments")
            done["set arguments"] = "given its arguments"
        if not verbs:
            return Words("read again", "read again")
        return Words(", ".join(verbs), ", ".join(done[verb] for verb in verbs))

    @property
    def news(self) -> bool:
        """Whether the service itself is not changed: its manager only reads files again."""
        return self.enable is None and self.run is None and self.arguments is None

    @property
    def operations(self) -> tuple[str, ...]:
        """The words of metrics."""
        words = ((self.enable, "enable", "disable"), (self.run, "start", "stop"))
        return tuple(yes if wanted else no for wanted, yes, no in words if wanted is not None)


class RestartService(Step, kw_only=True):
    """Restart or reload a running service because files that it subscribes to have changed."""

    REPAIRS = False
    WORDS = Words("restart", "restarted")
    OPERATIONS = ("restart",)

    name: str
    user: str = ""
    reload: bool = False
    lock_group: str = ""
    causes: tuple[str, ...] = ()
    refresh: bool = False

    @property
    def words(self) -> Words:
        """Whether it is restarted or reloaded."""
        return Words("reload", "reloaded") if self.reload else self.WORDS

    @property
    def lock(self) -> str:
        """What hosts that restart it take turns with."""
        return self.lock_group


class RunCommand(Step, kw_only=True):
    """Run a program."""

    REPAIRS = False
    WORDS = Words("run", "run")

    execution: Execution
    causes: tuple[str, ...] = ()

    @property
    def details(self) -> tuple[str, ...]:
        """The command line, or its beginning."""
        return (command_line(self.execution),)


def command_line(execution: Execution) -> str:
    """Return what would be run, or its beginning."""
    line = " ".join(" ".join([execution.command, *execution.args]).split())
    return line if len(line) <= LINE_MAX else f"{line[: LINE_MAX - 3]}..."


def changes(steps: Sequence[Step]) -> list[Step]:
    """Return the steps that would change something."""
    return [step for step in steps if step.ACTS]
