"""What a ConfigSet can declare: packages, files, services, executions, and whom to notify.

The JSON names are those of the Go project, whose manifests apply unchanged; two of them,
`subscribe_files` and `lock_group`, are not in camelCase. Readers fill in what is omitted: a
default of the schema would make the list of the object differ from that of its manifest for ever.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import msgspec

from nodemanager.api.common import file_content
from nodemanager.kube.hints import (
    ABSOLUTE_PATH,
    API_VERSION,
    DURATION_MAX,
    KIND,
    NAME_MAX,
    NO_PARENT,
    NOT_EMPTY,
    OBJECT_NAME,
    PACKAGE,
    PACKAGE_MAX,
    PACKAGE_VERSION,
    PATH,
    PATH_MAX,
    PLAIN_PATH,
    POSITIVE_DURATION,
    PRINTABLE,
    REFERENCE,
    TEMPLATED_REFERENCE,
    TEXT_MAX,
    UNIT,
    WORD,
    Rule,
    meta,
)
from nodemanager.kube.objects import Struct

Paths = list[Annotated[str, meta("An absolute path.", ABSOLUTE_PATH, max_length=PATH_MAX)]]
Arguments = list[
    Annotated[str, meta("One argument, passed as it is: no shell looks at it.", max_length=131072)]
]
CommandName = Annotated[
    str,
    meta(
        "The program to run, by absolute path or by name in PATH; never a shell line.",
        required=True,
        min_length=1,
        max_length=PATH_MAX,
    ),
]


REPAIR: Final = "repair"
IN_TURN: Final = "in-turn"
ESCALATE: Final = "escalate"
OBSERVE: Final = "observe"
DRIFT_POLICIES: Final = (REPAIR, IN_TURN, ESCALATE, OBSERVE)
"""What is done about a drift; of sets that agree on a resource, the one that comes first here counts."""
DRIFT_WORDS: Final = (
    "puts it back at once; in-turn reports it and puts it back when the window of the set is open and the "
    "operator gives this host its turn; escalate leaves it alone until a person has seen to it, and says so; "
    "observe leaves it alone and reports what differs."
)
DriftPolicy = Annotated[
    str,
    meta(
        f"What to do when somebody else changes it after it held: repair {DRIFT_WORDS} Omitted = as "
        "spec.drift of the ConfigSet says.",
        enum=DRIFT_POLICIES,
    ),
]


class Package(Struct):
    """A package the host's package manager shall have installed, or not."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!(has(self.version) && self.version != '' && has(self.ensure) && self.ensure == 'latest')",
            'version pins a release and "ensure: latest" follows all of them: remove one of the two',
            ".version",
        ),
    )

    name: Annotated[
        str,
        meta(
            "Name as the package manager knows it: letters, digits and _.+:@- only.",
            WORD,
            pattern=PACKAGE,
            required=True,
            min_length=1,
            max_length=PACKAGE_MAX,
        ),
    ] = ""
    ensure: Annotated[
        str,
        meta(
            "installed (default) installs the package when it is missing; latest also upgrades it whenever "
            "a newer release is offered; absent removes it.",
            enum=("installed", "latest", "absent"),
        ),
    ] = "installed"
    version: Annotated[
        str,
        meta(
            "Exact version to hold the package at, such as 1.24.0-2; omitted = any version.",
            WORD,
            pattern=PACKAGE_VERSION,
            max_length=PACKAGE_MAX,
        ),
    ] = ""
    drift: DriftPolicy = ""


class Validation(Struct):
    """A program that judges the new content of a file before it replaces the old one."""

    command: CommandName = ""
    args: Annotated[
        Arguments,
        meta(
            "Its arguments. ${STAGED} stands for the path of the new content, ${TARGET} for the path it "
            'will get; for example ["-t", "-c", "${STAGED}"].',
            max_items=1024,
        ),
    ] = []
    timeout_seconds: Annotated[
        int,
        meta(
            "Seconds after which the program is killed and counts as failed. Default 30.",
            format="int32",
            minimum=1,
            maximum=3600,
        ),
    ] = 30
    on_failure: Annotated[
        str,
        meta(
            "rollback (default) leaves the old file in place and goes on with the other resources; abort "
            "also holds back what comes after this file in the ConfigSet.",
            enum=("rollback", "abort"),
        ),
    ] = "rollback"


class File(Struct):
    """A file, directory or symbolic link that shall exist, or not."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.ensure) || self.ensure != 'symlink' || (has(self.target) && self.target != '')",
            'target is missing: "ensure: symlink" needs the path that the link shall point to',
            ".target",
        ),
        Rule(
            "self.path != '/' || (has(self.ensure) && self.ensure == 'directory' && "
            "!(has(self.purge) && self.purge))",
            '"/" can only be a directory, and cannot be purged',
            ".path",
        ),
        *file_content.RULES,
    )

    path: Annotated[
        str,
        meta(
            "Absolute path on the host, such as /etc/motd.",
            ABSOLUTE_PATH,
            NO_PARENT,
            PLAIN_PATH,
            pattern=PATH,
            required=True,
            max_length=PATH_MAX,
        ),
    ] = ""
    ensure: Annotated[
        str,
        meta(
            "What shall be at the path: file (default), directory, symlink, or absent for nothing. Empty "
            "means file.",
            enum=("file", "directory", "symlink", "absent", ""),
        ),
    ] = "file"
    content: Annotated[str, meta("Literal content of the file.", max_length=TEXT_MAX)] = ""
    content_base64: file_content.Base64 = ""
    content_from: file_content.From = None
    template: Annotated[
        str,
        meta(
            "Content as a template, rendered on the host with the data of its ManagedNode, of all "
            "ManagedNodes and of secretRefs and configMapRefs. If it renders to nothing, content is used "
            "instead.",
            max_length=TEXT_MAX,
        ),
    ] = ""
    engine: Annotated[
        str,
        meta(
            "Language of the template: gotemplate (default; Go text/template with gomplate's functions) or "
            "jinja.",
            enum=("gotemplate", "jinja"),
        ),
    ] = "gotemplate"
    owner: Annotated[
        str, meta("Owning user, by name or number. Default root.", WORD, pattern=PRINTABLE, max_length=256)
    ] = ""
    group: Annotated[
        str,
        meta(
            "Owning group, by name or number. Default root's group.", WORD, pattern=PRINTABLE, max_length=256
        ),
    ] = ""
    mode: Annotated[
        str,
        meta(
            'Permission bits in octal, quoted and with a leading zero: "0644", "0o644" or "01777". Omitted '
            "= left alone.",
            Rule(
                "self == '' || self.matches('^0[oO]?[0-7]{3,4}$')",
                'mode must be octal with a leading zero, such as "0644": decimal 644 means something else',
            ),
            max_length=16,
        ),
    ] = ""
    target: Annotated[
        str, meta("Where a symlink points to; may be relative to it.", pattern=PRINTABLE, max_length=PATH_MAX)
    ] = ""
    secret_refs: Annotated[
        list[
            Annotated[
                str,
                meta(
                    "Name of a Secret, or a template that renders to one.",
                    NOT_EMPTY,
                    pattern=TEMPLATED_REFERENCE,
                    max_length=4096,
                ),
            ]
        ],
        meta(
            "Secrets, in the namespace of the ConfigSet, whose keys the template may use. An entry may "
            "itself be a template, so that each host reads its own Secret.",
            max_items=256,
        ),
    ] = []
    config_map_refs: Annotated[
        list[Annotated[str, meta("Name of a ConfigMap.", NOT_EMPTY, pattern=REFERENCE, max_length=NAME_MAX)]],
        meta(
            "ConfigMaps, in the namespace of the ConfigSet, whose keys the template may use.", max_items=256
        ),
    ] = []
    create_only: Annotated[
        bool, meta("Write the file once and never touch it again, whatever becomes of it. Default false.")
    ] = False
    purge: Annotated[
        bool,
        meta(
            "For a directory: remove the files in it that no ConfigSet of this host declares. Default false."
        ),
    ] = False
    validate: Annotated[
        Validation | None, meta("Check new content with a program before it replaces the file.")
    ] = None
    drift: DriftPolicy = ""


class Service(Struct):
    """A service of the host's service manager."""

    name: Annotated[
        str,
        meta(
            "Name of the service or unit, such as nginx: letters, digits and _.@:- only.",
            pattern=UNIT,
            required=True,
            min_length=1,
            max_length=256,
        ),
    ] = ""
    user: Annotated[
        str,
        meta(
            "User whose own systemd instance runs the unit; empty (default) = the system's.",
            WORD,
            pattern=PRINTABLE,
            max_length=256,
        ),
    ] = ""
    ensure: Annotated[
        str,
        meta(
            "running or stopped; omitted or empty = whether it runs is left alone.",
            enum=("running", "stopped", ""),
        ),
    ] = ""
    enable: Annotated[
        bool | None,
        meta("Whether it starts at boot: true enables, false disables, omitted = left alone."),
    ] = None
    reload: Annotated[
        bool,
        meta("Reload instead of restart when a subscribed file changes. Default false."),
    ] = False
    arguments: Annotated[
        str, meta("Flags for the service, on FreeBSD (rc.conf).", pattern=PRINTABLE, max_length=8192)
    ] = ""
    subscribe_files: Annotated[
        Paths,
        meta(
            "Files of this ConfigSet whose change restarts (or reloads) the service, if it is to be running.",
            max_items=1024,
        ),
    ] = msgspec.field(default_factory=list, name="subscribe_files")
    lock_group: Annotated[
        str,
        meta(
            "Restart on one host at a time among all services with this group; it names a Lease.",
            OBJECT_NAME,
            max_length=NAME_MAX,
        ),
    ] = msgspec.field(default="", name="lock_group")
    drift: DriftPolicy = ""


class Command(Struct):
    """A program that is asked a question: exit code 0 means yes."""

    command: CommandName = ""
    args: Annotated[Arguments, meta("Its arguments.", max_items=1024)] = []


class Execution(Struct):
    """A program that runs for a reason: a changed file, a missing path, or what another program says."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(has(self.subscribe_files) && self.subscribe_files.size() > 0) || (has(self.creates) && "
            "self.creates != '') || has(self.onlyIf) || has(self.unless)",
            "this execution can never run: give it subscribe_files, creates, onlyIf or unless",
        ),
    )

    command: CommandName = ""
    args: Annotated[Arguments, meta('Its arguments, such as ["-c", "/etc/app.conf"].', max_items=1024)] = []
    subscribe_files: Annotated[
        Paths,
        meta("Files of this ConfigSet whose change makes it run, once per change set.", max_items=1024),
    ] = msgspec.field(default_factory=list, name="subscribe_files")
    timeout: Annotated[
        str,
        meta(
            'How long it may take before it is killed, such as "90s". Default 5m.',
            POSITIVE_DURATION,
            max_length=DURATION_MAX,
        ),
    ] = "5m"
    creates: Annotated[
        str,
        meta(
            "Absolute path that the program brings about: it runs when this is missing, and never when it "
            "exists.",
            Rule("self == '' || self.startsWith('/')", ABSOLUTE_PATH.message),
            max_length=PATH_MAX,
        ),
    ] = ""
    only_if: Annotated[Command | None, meta("Run only when this program exits with 0.")] = None
    unless: Annotated[Command | None, meta("Do not run when this program exits with 0.")] = None


class Notify(Struct):
    """An object that is told, by an annotation, when this ConfigSet has been applied."""

    api_version: Annotated[
        str,
        meta(
            "API version of the object, such as common.nodemanager/v1.",
            pattern=API_VERSION,
            required=True,
            min_length=1,
            max_length=317,
        ),
    ] = ""
    kind: Annotated[
        str, meta("Kind of the object.", pattern=KIND, required=True, min_length=1, max_length=63)
    ] = ""
    name: Annotated[
        str, meta("Name of the object; omitted = all of that kind.", pattern=REFERENCE, max_length=NAME_MAX)
    ] = ""
    namespace: Annotated[
        str,
        meta("Namespace of the object; omitted = that of the ConfigSet.", pattern=REFERENCE, max_length=63),
    ] = ""
