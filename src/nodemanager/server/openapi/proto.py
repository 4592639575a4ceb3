"""The OpenAPI v2 document in protobuf.

kubectl reads /openapi/v2 in no other form. The tables below name the fields of the messages of gnostic's
OpenAPIv2.proto that our documents use, with their numbers; everything else is plain protobuf encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
CONTENT_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""What kube-apiserver calls the same in a response, where @ is not allowed."""

Encoder = Callable[[int, Any], bytes]
_BYTES = 2
_FIXED64 = 1


def encode(document: Mapping[str, Any]) -> bytes:
    """Return a v2 document as the message openapi.v2.Document."""
    return _message(_DOCUMENT, document)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    value &= (1 << 64) - 1  # negative numbers take ten bytes
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _chunk(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _text(number: int, value: Any) -> bytes:
    return _chunk(number, str(value).encode())


def _texts(number: int, value: Any) -> bytes:
    return b"".join(_text(number, text) for text in value)


def _flag(number: int, value: Any) -> bytes:
    return _varint(number << 3) + _varint(int(bool(value)))


def _integer(number: int, value: Any) -> bytes:
    return _varint(number << 3) + _varint(int(value))


def _double(number: int, value: Any) -> bytes:
    return _varint(number << 3 | _FIXED64) + struct.pack("<d", float(value))


def _any(number: int, value: Any) -> bytes:
    return _chunk(number, _chunk(2, msgspec.json.encode(value, order="sorted")))  # JSON is YAML, too


def _anys(number: int, value: Any) -> bytes:
    return b"".join(_any(number, one) for one in value)


def _schema_message(number: int, value: Any) -> bytes:
    return _chunk(number, _message(_SCHEMA, value))


def _boxed_schema(number: int, value: Any) -> bytes:
    return _chunk(number, _schema_message(1, value))


def _additional(number: int, value: Any) -> bytes:
    return _chunk(number, _flag(2, value)) if isinstance(value, bool) else _boxed_schema(number, value)


def _type(number: int, value: Any) -> bytes:
    return _chunk(number, _text(1, value))


def _map(encoder: Encoder, entry: int = 1) -> Encoder:
    """Return the encoder of a map: a message with one named entry after the other."""

    def encode_map(number: int, value: Any) -> bytes:
        entries = (_chunk(entry, _text(1, name) + encoder(2, part)) for name, part in sorted(value.items()))
        return _chunk(number, b"".join(entries))

    return encode_map


def _nested(fields: Callable[[], Fields]) -> Encoder:
    return lambda number, value: _chunk(number, _message(fields(), value))


def _parameters(number: int, value: Any) -> bytes:
    return b"".join(_chunk(number, _chunk(1, _parameter(parameter))) for parameter in value)


def _parameter(parameter: Mapping[str, Any]) -> bytes:
    if parameter["in"] == "body":
        return _chunk(1, _message(_BODY_PARAMETER, parameter))
    in_path = parameter["in"] == "path"
    fields = _PATH_PARAMETER if in_path else _QUERY_PARAMETER
    return _chunk(2, _chunk(4 if in_path else 3, _message(fields, parameter)))


def _response(number: int, value: Any) -> bytes:
    return _chunk(number, _chunk(1, _message(_RESPONSE, value)))


def _security(number: int, value: Any) -> bytes:
    return b"".join(
        _map(lambda field, scopes: _chunk(field, _texts(1, scopes)))(number, one) for one in value
    )


def _api_key(number: int, value: Any) -> bytes:
    return _chunk(number, _chunk(2, _message(_API_KEY, value)))


Fields = Mapping[str, tuple[int, Encoder]]
_EXTENSIONS = "x-"
"""Stands for every field whose name begins so."""

_SCHEMA: Fields = {
    "$ref": (1, _text),
    "format": (2, _text),
    "title": (3, _text),
    "description": (4, _text),
    "default": (5, _any),
    "multipleOf": (6, _double),
    "maximum": (7, _double),
    "exclusiveMaximum": (8, _flag),
    "minimum": (9, _double),
    "exclusiveMinimum": (10, _flag),
    "maxLength": (11, _integer),
    "minLength": (12, _integer),
    "pattern": (13, _text),
    "maxItems": (14, _integer),
    "minItems": (15, _integer),
    "uniqueItems": (16, _flag),
    "maxProperties": (17, _integer),
    "minProperties": (18, _integer),
    "required": (19, _texts),
    "enum": (20, _anys),
    "additionalProperties": (21, _additional),
    "type": (22, _type),
    "items": (23, _boxed_schema),
    "properties": (25, _map(_schema_message)),
    "example": (30, _any),
    _EXTENSIONS: (31, _any),
}
_BODY_PARAMETER: Fields = {
    "description": (1, _text),
    "name": (2, _text),
    "in": (3, _text),
    "required": (4, _flag),
    "schema": (5, _schema_message),
}
_PATH_PARAMETER: Fields = {
    "required": (1, _flag),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
    "type": (5, _text),
    "uniqueItems": (19, _flag),
}
_QUERY_PARAMETER: Fields = {
    "required": (1, _flag),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
    "type": (6, _text),
    "uniqueItems": (20, _flag),
}
_RESPONSE: Fields = {"description": (1, _text), "schema": (2, _boxed_schema)}
_OPERATION: Fields = {
    "tags": (1, _texts),
    "description": (3, _text),
    "operationId": (5, _text),
    "produces": (6, _texts),
    "consumes": (7, _texts),
    "parameters": (8, _parameters),
    "responses": (9, _map(_response)),
    "schemes": (10, _texts),
    _EXTENSIONS: (13, _any),
}
_PATH: Fields = {
    "get": (2, _nested(lambda: _OPERATION)),
    "put": (3, _nested(lambda: _OPERATION)),
    "post": (4, _nested(lambda: _OPERATION)),
    "delete": (5, _nested(lambda: _OPERATION)),
    "patch": (8, _nested(lambda: _OPERATION)),
    "parameters": (9, _parameters),
}
_API_KEY: Fields = {"type": (1, _text), "name": (2, _text), "in": (3, _text), "description": (4, _text)}
_INFO: Fields = {"title": (1, _text), "version": (2, _text)}
_DOCUMENT: Fields = {
    "swagger": (1, _text),
    "info": (2, _nested(lambda: _INFO)),
    "paths": (8, _map(_nested(lambda: _PATH), entry=2)),
    "definitions": (9, _map(_schema_message)),
    "security": (12, _security),
    "securityDefinitions": (13, _map(_api_key)),
}


def _message(fields: Fields, value: Mapping[str, Any]) -> bytes:
    encoded = bytearray()
    for name, part in sorted(value.items()):
        if name in fields:
            number, encoder = fields[name]
            encoded += encoder(number, part)
        elif name.startswith(_EXTENSIONS) and _EXTENSIONS in fields:
            encoded += _chunk(fields[_EXTENSIONS][0], _text(1, name) + _any(2, part))
        # What the message has no field for is left out: kubectl could not read it.
    return bytes(encoded)
