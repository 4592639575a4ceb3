"""NodeOperationTemplate: steps or declarations under a name, with parameters that maintenances fill in."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from nodemanager.api.maintenance.maintenancewindow import GROUP, VERSION
from nodemanager.api.maintenance.operations import PARAMETER_MAX, PARAMETER_NAME, TYPES
from nodemanager.api.maintenance.realtime_set import RealtimeSet
from nodemanager.api.maintenance.task_steps import OperationStep
from nodemanager.kube.hints import PRINTABLE, Rule, meta
from nodemanager.kube.objects import ObjectMeta, Resource, Struct

MAX_STEPS: Final = 32
STRING: Final = "string"
INTEGER: Final = "integer"
BOOLEAN: Final = "boolean"


class Parameter(Struct):
    """Something that a maintenance fills in; texts of steps name it as $(params.NAME)."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!(has(self.required) && self.required && has(self.default))",
            "must not be given: a parameter that is required has no default",
            ".default",
        ),
        Rule(
            "!has(self.pattern) || self.pattern == '' || !has(self.type) || self.type == 'string'",
            "goes with type string only",
            ".pattern",
        ),
        Rule(
            "!has(self.default) || !has(self.enum) || size(self.enum) == 0 || self.default in self.enum",
            "must be one of enum",
            ".default",
        ),
        Rule(
            "!has(self.default) || !has(self.type) || self.type == 'string'"
            " || (self.type == 'integer' && self.default.matches('^-?[0-9]{1,18}$'))"
            " || (self.type == 'boolean' && self.default in ['true', 'false'])",
            'must be of its type, such as "3" for an integer and "true" for a boolean',
            ".default",
        ),
    )

    name: Annotated[
        str, meta("Its name.", pattern=PARAMETER_NAME, min_length=1, max_length=63, required=True)
    ] = ""
    type: Annotated[str, meta("What its value is; default string.", enum=(STRING, INTEGER, BOOLEAN))] = ""
    pattern: Annotated[
        str,
        meta("A regular expression that a value matches as a whole, such as v[0-9.]+.", max_length=256),
    ] = ""
    enum: Annotated[
        list[Annotated[str, meta("A value.", pattern=PRINTABLE, max_length=PARAMETER_MAX)]],
        meta("The values there are; empty: any.", max_items=64),
    ] = []
    default: Annotated[
        str | None,
        meta("Its value where none is given; omitted: empty.", pattern=PRINTABLE, max_length=PARAMETER_MAX),
    ] = None
    required: Annotated[bool, meta("Whether a value has to be given.")] = False
    description: Annotated[str, meta("What it is, for people.", pattern=PRINTABLE, max_length=512)] = ""


class NodeOperationTemplateSpec(Struct):
    """What is done, or shall hold, and what may be filled in."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(has(self.steps) && size(self.steps) > 0) != has(self.configSet)",
            "must have either steps or configSet",
        ),
        Rule(
            "!has(self.type) || (self.type == 'realtime') == has(self.configSet)",
            "must be realtime if there is a configSet, and something else if there are steps",
            ".type",
        ),
    )

    description: Annotated[str, meta("What it does, for people.", pattern=PRINTABLE, max_length=512)] = ""
    version: Annotated[
        str,
        meta(
            "Version of the template, for people; runs keep to what they began with by its digest.",
            pattern=PRINTABLE,
            max_length=63,
        ),
    ] = ""
    type: Annotated[str, meta("What type an operation with it usually has.", enum=TYPES)] = ""
    parameters: Annotated[
        list[Parameter], meta("What may be filled in.", list_map_keys=("name",), max_items=32)
    ] = []
    steps: Annotated[
        list[OperationStep],
        meta("What is done, in this order.", list_map_keys=("name",), max_items=MAX_STEPS),
    ] = []
    config_set: Annotated[RealtimeSet | None, meta("What shall hold.", atomic=True)] = None


class NodeOperationTemplate(Struct):
    """Steps or declarations that maintenances refer to, with parameters."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[NodeOperationTemplateSpec, meta("What is done.")] = NodeOperationTemplateSpec()


NODE_OPERATION_TEMPLATES: Final = Resource(
    GROUP, VERSION, "NodeOperationTemplate", "nodeoperationtemplates", NodeOperationTemplate
)
