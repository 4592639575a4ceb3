"""Where a file has its bytes from, if not from a text of the ConfigSet: base64, a Secret, a ConfigMap.

Named as `valueFrom` of a container is, because it means the same: the value of one key, as it is. The older
`secretRefs` and `configMapRefs` of a file are what its template may read.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from nodemanager.kube.hints import NAME_MAX, NOT_EMPTY, REFERENCE, TEMPLATED_REFERENCE, TEXT_MAX, Rule, meta
from nodemanager.kube.objects import Struct

_KEY: Final = meta(
    "The key whose value is the content.",
    pattern="^[-._a-zA-Z0-9]+$",
    required=True,
    min_length=1,
    max_length=NAME_MAX,
)


class SecretKey(Struct):
    """One key of a Secret."""

    name: Annotated[
        str,
        meta(
            "Name of a Secret in the namespace of the ConfigSet, or a template that renders to one, so that "
            "each host reads its own.",
            NOT_EMPTY,
            pattern=TEMPLATED_REFERENCE,
            required=True,
            max_length=4096,
        ),
    ] = ""
    key: Annotated[str, _KEY] = ""


class ConfigMapKey(Struct):
    """One key of a ConfigMap."""

    name: Annotated[
        str,
        meta(
            "Name of a ConfigMap in the namespace of the ConfigSet.",
            NOT_EMPTY,
            pattern=REFERENCE,
            required=True,
            max_length=NAME_MAX,
        ),
    ] = ""
    key: Annotated[str, _KEY] = ""


class ContentFrom(Struct):
    """The content of a file is the value of one key, byte for byte."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.secretKeyRef) != has(self.configMapKeyRef)",
            "contentFrom takes one of secretKeyRef and configMapKeyRef: write one of them, with name and key",
        ),
    )

    secret_key_ref: Annotated[
        SecretKey | None, meta("Take the value of a key of a Secret; it is never shown or logged.")
    ] = None
    config_map_key_ref: Annotated[
        ConfigMapKey | None, meta("Take the value of a key of a ConfigMap, of its data or its binaryData.")
    ] = None


Base64 = Annotated[
    str,
    meta(
        "Literal content of the file in base64, for bytes that are no text; line breaks in it do not count.",
        pattern=r"^[A-Za-z0-9+/\s]*(=\s*){0,2}$",
        max_length=TEXT_MAX,
    ),
]
From = Annotated[
    ContentFrom | None,
    meta("Content of the file byte for byte from one key of a Secret or ConfigMap, without a template."),
]

_BASE64 = "has(self.contentBase64) && self.contentBase64 != ''"
_TEXT = "(has(self.content) && self.content != '') || (has(self.template) && self.template != '')"
RULES: Final = (
    Rule(
        f"({_TEXT} ? 1 : 0) + ({_BASE64} ? 1 : 0) + (has(self.contentFrom) ? 1 : 0) <= 1",
        "a file has one source of content: keep content or template, or contentBase64, or contentFrom, and"
        " remove the others",
    ),
    Rule(
        f"!has(self.ensure) || self.ensure in ['', 'file'] || !(has(self.contentFrom) || ({_BASE64}))",
        'contentBase64 and contentFrom are for files: remove them, or write "ensure: file"',
        ".ensure",
    ),
)
"""Of a file; content and template may be together, as content is used where a template renders to nothing."""
