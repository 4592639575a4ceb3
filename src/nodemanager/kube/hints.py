"""What a CRD schema says about a field beyond its Python type.

`meta` attaches it to the annotation. Nothing here is enforced when an object is decoded: an
object that an older or a newer CRD admitted must still be readable. The API server enforces
it, from the schema that `kube.schemas.derivation` makes of these hints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict, Unpack

import msgspec

from nodemanager.kube import object_names


class Rule(NamedTuple):
    """A CEL rule: the condition, and the message for the author of a manifest that breaks it."""

    rule: str
    message: str
    field_path: str = ""
    """Which field of an object the message is about, such as `.target`; empty = the value itself."""


class Hints(TypedDict, total=False):
    """What `meta` takes: OpenAPI keywords in snake_case, and three of our own."""

    enum: Sequence[str]
    default: Any
    format: str
    pattern: str
    minimum: int
    maximum: int
    min_length: int
    max_length: int
    min_items: int
    max_items: int
    max_properties: int
    nullable: bool
    list_map_keys: Sequence[str]
    """The list is a map: these fields identify an item, and two items may not share them."""
    atomic: bool
    """The object is replaced as a whole by server-side apply."""
    required: bool


REQUIRED = "x-required"
"""Key under which `required` travels until the schema of the parent picks it up."""

_KEYWORDS = {
    "max_length": "maxLength",
    "min_length": "minLength",
    "max_items": "maxItems",
    "min_items": "minItems",
    "max_properties": "maxProperties",
    "list_map_keys": "x-kubernetes-list-map-keys",
    "required": REQUIRED,
}


def meta(description: str, *rules: Rule, **hints: Unpack[Hints]) -> msgspec.Meta:
    """Return the annotation of a field: what `kubectl explain` says, and what the schema checks."""
    extra: dict[str, Any] = {}
    for name, value in hints.items():
        if name == "atomic":
            extra["x-kubernetes-map-type"] = "atomic"
            continue
        extra[_KEYWORDS.get(name, name)] = list(value) if isinstance(value, tuple) else value
    if "x-kubernetes-list-map-keys" in extra:
        extra["x-kubernetes-list-type"] = "map"
    if rules:
        extra["x-kubernetes-validations"] = [validation(rule) for rule in rules]
    return msgspec.Meta(description=description, extra_json_schema=extra)


def validation(rule: Rule) -> dict[str, str]:
    """Return a rule as an entry of `x-kubernetes-validations`."""
    entry = {"rule": rule.rule, "message": rule.message}
    if rule.field_path:
        entry["fieldPath"] = rule.field_path
    return entry


PATH_MAX = 4096
"""Longest path Linux takes."""

NAME_MAX = object_names.MAX
"""Longest name of a Kubernetes object."""

DURATION_MAX = 64
"""Longest duration text admitted; bounds what the CEL rules on it may cost."""

TEXT_MAX = 1_572_864
"""What etcd takes in one request: no text admitted at all is longer."""

_PART = "([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|\N{MICRO SIGN}s|ms|s|m|h)"

# Lists in lists of names: too many for matches(), so that a pattern tells the form, and a rule the rest.
REFERENCE = f"^({object_names.FORM})?$"
TEMPLATED_REFERENCE = rf"^(({object_names.FORM})?|(.|\n)*\{{\{{(.|\n)*)$"
NOT_EMPTY = Rule(
    "self != ''", "is empty, which names nothing: write the name of an object, or remove the entry"
)
API_VERSION = r"^([a-z0-9][-a-z0-9.]*/)?[a-z0-9]+$"
KIND = "^[A-Za-z][A-Za-z0-9]*$"

ABSOLUTE_PATH = Rule("self.startsWith('/')", 'must be an absolute path, such as "/etc/motd"')
# Patterns, not CEL: on long texts the estimated cost of matches() is beyond what a CRD may have.
# Unsafe: what ends a line for some reader (YAML has three of its own), steers a terminal, or turns text over.
_UNSAFE = r"\x7f-\x9f\x{2028}\x{2029}\x{202a}-\x{202e}\x{2066}-\x{2069}"
PATH = rf"^/?([^/\x00-\x1f{_UNSAFE}]+/?)*$"
PRINTABLE = rf"^[^\x00-\x1f{_UNSAFE}]*$"
TEXT = rf"^[^\x00-\x08\x0b-\x1f{_UNSAFE}]*$"
ASCII = "^[ -~]*$"
HEX = "^[0-9A-Fa-f]*$"
# One word to every package manager: no option, no path or address, no pattern, no `name=version`, `@group` or
# `name-` (which removes, to apt).
PACKAGE = "^[A-Za-z0-9_]([A-Za-z0-9_.+:@-]*[A-Za-z0-9_.+:@])?$"
PACKAGE_VERSION = "^([A-Za-z0-9_][A-Za-z0-9_.+:~^,-]*)?$"
PACKAGE_MAX = 255
UNIT = r"^[A-Za-z0-9_.@:][-A-Za-z0-9_.@:\\]*$"
WORD = Rule(
    "!self.startsWith('-') && !self.contains(' ')",
    'must be one word that does not begin with "-": it becomes an argument of a command',
)
PLAIN_PATH = Rule(
    "!self.contains('/./') && !self.endsWith('/.')",
    'must not contain "/./": write the path that is meant, without detours',
)
NO_PARENT = Rule(
    "!self.contains('/../') && !self.endsWith('/..')",
    'must not contain "..": write the path that is meant, without detours',
)
DURATION = Rule(
    f"self == '' || self == '0' || (self.matches('^({_PART})+$') && duration(self) >= duration('0s'))",
    'must be a duration with units, such as "45s", "10m" or "1h30m" (there is no unit for days: write "24h")',
)
POSITIVE_DURATION = Rule(
    f"self.matches('^({_PART})+$') && duration(self) > duration('0s')",
    'must be a duration above zero with units, such as "45s", "10m" or "1h30m"',
)
INTERFACE = Rule(
    "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    "must consist of lower case letters, digits and '-', such as \"wg0\": it is part of the name of a Secret",
)
OBJECT_NAME = Rule(
    f"self == '' || self.matches('^{object_names.FORM}$')",
    "names a Lease, so it must consist of lower case letters, digits, '-' and '.', such as \"web-frontends\"",
)
