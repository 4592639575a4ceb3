"""One operation of a maintenance: what is done to every host, and how often.

one-shot   once per host of the run; again under another runID
cron       at every slot of its schedule that falls into an open window
realtime   at all times while the window is open, by a ConfigSet that the operator owns
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import msgspec

from nodemanager.api.maintenance.realtime_set import RealtimeSet
from nodemanager.api.maintenance.task_steps import OperationStep
from nodemanager.api.schedule_rules import SCHEDULE
from nodemanager.kube.hints import NAME_MAX, PRINTABLE, Rule, meta
from nodemanager.kube.objects import Struct

ONE_SHOT: Final = "one-shot"
CRON: Final = "cron"
REALTIME: Final = "realtime"
TYPES: Final = (ONE_SHOT, CRON, REALTIME)
ALLOW: Final = "Allow"
FORBID: Final = "Forbid"
REPLACE: Final = "Replace"
MAX_OPERATIONS: Final = 8
MAX_STEPS: Final = 16
"""Steps of one operation that are written inline; a template takes more. The API server adds up what the
rules of all of them may cost."""
OPERATION_NAME: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
PARAMETER_NAME: Final = "^[A-Za-z]([-_A-Za-z0-9]*[A-Za-z0-9])?$"
PARAMETER_MAX: Final = 1024
ZONE: Final = Rule(
    "self == '' || timestamp('2026-01-01T00:00:00Z').getHours(self) >= 0",
    "must be a time zone of the IANA database, such as Europe/Paris or UTC",
)


class LocalReference(Struct):
    """An object of the same namespace, by its name."""

    name: Annotated[
        str, meta("Its name.", pattern=PRINTABLE, min_length=1, max_length=NAME_MAX, required=True)
    ] = ""


def _only_for(kind: str, field: str, given: str, why: str) -> Rule:
    return Rule(f"self.type == '{kind}' || !({given})", f"goes with type {kind} only: {why}", f".{field}")


class Operation(Struct):
    """What is done to every host of the series, and how often."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.templateRef), has(self.steps) && size(self.steps) > 0, has(self.configSet)]"
            ".exists_one(given, given)",
            "must have exactly one of templateRef, steps and configSet",
        ),
        Rule(
            "self.type != 'cron' || (has(self.schedule) && self.schedule != '')",
            'must have a schedule, such as "0 6 * * 1": its type is cron',
            ".schedule",
        ),
        _only_for(
            CRON, "schedule", "has(self.schedule) && self.schedule != ''", "the others have no slots of time"
        ),
        _only_for(
            CRON, "timeZone", "has(self.timeZone) && self.timeZone != ''", "it is where slots are meant"
        ),
        _only_for(
            CRON, "startingDeadlineSeconds", "has(self.startingDeadlineSeconds)", "it is about missed slots"
        ),
        _only_for(
            CRON, "concurrencyPolicy", "has(self.concurrencyPolicy)", "only slots can come before one is done"
        ),
        _only_for(ONE_SHOT, "runID", "has(self.runID) && self.runID != ''", "another one runs it once more"),
        _only_for(REALTIME, "configSet", "has(self.configSet)", "write steps for what is done once"),
        Rule(
            "self.type != 'realtime' || !(has(self.steps) && size(self.steps) > 0)",
            "must not be given: an operation of type realtime declares a configSet, which is kept true",
            ".steps",
        ),
        Rule(
            "has(self.templateRef) || !has(self.parameters) || size(self.parameters) == 0",
            "must not be given without templateRef: they are what a template asks for",
            ".parameters",
        ),
    )

    name: Annotated[
        str,
        meta(
            "Unlike all others of the maintenance; steps and status are named by it.",
            pattern=OPERATION_NAME,
            required=True,
            min_length=1,
            max_length=31,
        ),
    ] = ""
    type: Annotated[
        str,
        meta(
            "one-shot is done once, cron at every slot of a schedule that falls into an open window, "
            "realtime "
            "is kept true while the window is open.",
            enum=TYPES,
            required=True,
        ),
    ] = ""
    schedule: Annotated[
        str, meta('When it is due, as in a crontab, such as "0 6 * * 1".', *SCHEDULE, max_length=256)
    ] = ""
    time_zone: Annotated[
        str,
        meta(
            "Where the schedule is meant; default: timeZone of the window, or of its one schedule; else UTC.",
            ZONE,
            max_length=64,
            pattern="^[A-Za-z0-9_+/-]*$",
        ),
    ] = ""
    template_ref: Annotated[
        LocalReference | None, meta("The NodeOperationTemplate that says what is done.", atomic=True)
    ] = None
    parameters: Annotated[
        dict[str, Annotated[str, meta("Its value.", pattern=PRINTABLE, max_length=PARAMETER_MAX)]],
        meta(
            'What the template asks for, as texts: write numbers and booleans in quotes, such as "3".',
            max_properties=32,
        ),
    ] = {}
    steps: Annotated[
        list[OperationStep],
        meta("What is done, in this order.", list_map_keys=("name",), max_items=MAX_STEPS),
    ] = []
    config_set: Annotated[
        RealtimeSet | None, meta("What the hosts shall have while the window is open.", atomic=True)
    ] = None
    run_id: Annotated[
        str,
        meta(
            "Any text. A one-shot operation is done once; change this to have it done once more.",
            pattern=PRINTABLE,
            max_length=64,
        ),
    ] = msgspec.field(default="", name="runID")
    suspend: Annotated[bool, meta("Nothing new is begun of it; what runs goes on.")] = False
    concurrency_policy: Annotated[
        str,
        meta(
            "What becomes of a slot that comes before the last one is done: Forbid (default) skips and "
            "counts it; "
            "Allow lets it begin when the last one is done, one at a time per host; Replace ends the last "
            "one after "
            "the hosts that are being worked on, and begins anew.",
            enum=(ALLOW, FORBID, REPLACE),
        ),
    ] = ""
    starting_deadline_seconds: Annotated[
        int | None,
        meta(
            "How late a slot may still begin. Omitted: as long as the window that it fell into stays open. "
            "Of several "
            "missed slots, only the last one is made up for.",
            minimum=1,
            maximum=604800,
        ),
    ] = None
