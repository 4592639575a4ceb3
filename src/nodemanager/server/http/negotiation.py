"""What form an answer takes: JSON or YAML, and whole objects, their metadata, or a Table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from nodemanager.kube import errors, manifests

JSON = "application/json"
YAML = "application/yaml"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_SERVED = f"{JSON}, {YAML}"
MAX_ACCEPT = 4096
_JSON_NAMES = (JSON, "*/*", "application/*")


class Shape(Enum):
    """What is answered in place of an object or a list."""

    WHOLE = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"
    DISCOVERY = "APIGroupDiscoveryList"


@dataclass(frozen=True, slots=True)
class Form:
    """The form that was agreed on."""

    shape: Shape = Shape.WHOLE
    yaml: bool = False

    @property
    def content_type(self) -> str:
        """The Content-Type of an answer in this form."""
        if self.shape is Shape.DISCOVERY:
            return DISCOVERY
        return YAML if self.yaml else JSON

    @property
    def is_stored(self) -> bool:
        """Whether objects are answered just as they are stored: whole, and in JSON."""
        return self.shape is Shape.WHOLE and not self.yaml

    def encode(self, body: Any) -> bytes:
        """Return the bytes of an answer."""
        if self.yaml:
            return manifests.dump(msgspec.to_builtins(body)).encode()
        return msgspec.json.encode(body)


def choose(accept: str, *, discovery: bool = False) -> Form:
    """Return the first form of an Accept header that we can answer in."""
    if not accept.strip():
        return Form()
    for clause in accept[:MAX_ACCEPT].split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        named = dict(parameter.partition("=")[::2] for parameter in parameters)
        form = _form(media, named, discovery=discovery)
        if form is not None:
            return form
    if "as=" in accept:
        raise errors.NotAcceptable(f"only the following media types are accepted: {_SERVED}")
    raise errors.NotAcceptable(
        f"406: Not Acceptable\n\nAvailable representations: {_SERVED}", details=errors.StatusDetails()
    )


def _form(media: str, named: dict[str, str], *, discovery: bool) -> Form | None:
    if media not in _JSON_NAMES and media != YAML:
        return None
    wanted = named.get("as", "")
    if not wanted:
        return Form(yaml=media == YAML)
    group = "apidiscovery.k8s.io" if discovery else "meta.k8s.io"
    version = "v2" if discovery else "v1"
    if named.get("g") != group or named.get("v") != version or media == YAML:
        return None
    shapes = (Shape.DISCOVERY,) if discovery else (Shape.TABLE, Shape.METADATA, Shape.METADATA_LIST)
    return next((Form(shape) for shape in shapes if shape.value == wanted), None)
