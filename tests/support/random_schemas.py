"""Random schemas of CustomResourceDefinitions, and random values that mostly obey them."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

Schema = dict[str, Any]

NAMES = ("alpha", "beta", "gamma", "delta")
PATTERNS = ("^[a-z]+$", "^a", "b$", "^[A-Z][a-z0-9-]*$", "^(x|y)*$", r"^\d{1,3}$", "^[^/]+/[^/]+$")
FORMATS = ("date-time", "date", "ipv4", "ipv6", "cidr", "byte", "uuid", "mac", "duration", "hostname", "uri",
           "email", "password", "hexcolor", "k8s-short-name")  # fmt: skip
TEXTS = ("", "a", "abc", "Abc-1", "b", "x", "xyxy", "12", "1234", "a/b", "10.0.0.1", "fe80::1", "10.0.0.0/8",
         "YWJj", "2020-01-02", "2020-01-02T03:04:05Z", "5m", "01:23:45:67:89:ab", "a@b.c", "#fff", "ünïcode",
         'quote"d', "line\nbreak", "<html>&", "http://a/b", "65", "A")  # fmt: skip
NUMBERS = (0, 1, 2, 3, 5, 7, 10, -1, -5, 100, 2**31, 2**40, 1.5, 0.5, 2.0, -3.5, 1e21, 1e-7, 65)

CHOICES: dict[str, tuple[Any, ...]] = {
    "string": TEXTS,
    "integer": tuple(number for number in NUMBERS if isinstance(number, int) or number == 2.0),
    "number": NUMBERS,
    "boolean": (True, False),
    "int-or-string": (3, "abc", 80, "a"),
}


class Maker:
    """Draws schemas and values from one source of randomness."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def root(self) -> Schema:
        """A schema for a whole object."""
        schema: Schema = {"type": "object", "properties": {"spec": self.schema(3)}}
        if self.chance(0.3):
            schema["required"] = ["spec"]
        return schema

    def schema(self, depth: int) -> Schema:
        kinds = ["string", "integer", "number", "boolean", "int-or-string"]
        if depth:
            kinds += ["object"] * 4 + ["array"] * 3 + ["map", "free"]
        if depth == 3:
            kinds = ["object"]
        kind = self.random.choice(kinds)
        schema: Schema = getattr(self, "_" + kind.replace("-", "_"))(depth)
        if self.chance(0.15):
            schema["nullable"] = True
        if self.chance(0.12) and kind in ("string", "integer", "number"):
            schema["enum"] = [self.value(schema, 0, wild=0.1) for _ in range(self.random.randint(1, 3))]
        if self.chance(0.25) and depth < 3:
            schema["default"] = self.value(schema, 0, wild=0.03)
            if schema["default"] is None:
                del schema["default"]
        if self.chance(0.12):
            self._junctor(schema)
        return schema

    def _string(self, _depth: int) -> Schema:
        schema: Schema = {"type": "string"}
        if self.chance(0.25):
            schema["pattern"] = self.random.choice(PATTERNS)
        if self.chance(0.2):
            schema["format"] = self.random.choice(FORMATS)
        if self.chance(0.2):
            schema["minLength"] = self.random.randint(0, 3)
        if self.chance(0.2):
            schema["maxLength"] = self.random.randint(1, 6)
        return schema

    def _bounds(self, schema: Schema, values: tuple[float, ...]) -> Schema:
        for name in ("minimum", "maximum"):
            if self.chance(0.25):
                schema[name] = self.random.choice(values)
                if self.chance(0.3):
                    schema["exclusive" + name.capitalize()] = True
        if self.chance(0.15):
            schema["multipleOf"] = self.random.choice((2, 5, 0.5, 1.5))
        return schema

    def _integer(self, _depth: int) -> Schema:
        schema: Schema = {"type": "integer"}
        if self.chance(0.4):
            schema["format"] = self.random.choice(("int32", "int64"))
        return self._bounds(schema, (0, 1, 5, 10, -3, 1.5, 2**33))

    def _number(self, _depth: int) -> Schema:
        schema: Schema = {"type": "number"}
        if self.chance(0.3):
            schema["format"] = self.random.choice(("float", "double"))
        return self._bounds(schema, (0, 1.5, 2.25, -1, 100))

    def _boolean(self, _depth: int) -> Schema:
        return {"type": "boolean"}

    def _int_or_string(self, _depth: int) -> Schema:
        schema: Schema = {"x-kubernetes-int-or-string": True}
        if self.chance(0.5):
            schema["anyOf"] = [{"type": "integer"}, {"type": "string"}]
        if self.chance(0.3):
            schema["pattern"] = self.random.choice(PATTERNS)
        return schema

    def _object(self, depth: int) -> Schema:
        names = self.random.sample(NAMES, self.random.randint(1, 4))
        properties = {name: self.schema(max(depth - 1, 0)) for name in names}
        schema: Schema = {"type": "object", "properties": properties}
        if self.chance(0.4):
            schema["required"] = self.random.sample(names, self.random.randint(1, len(names)))
        if self.chance(0.1):
            schema["x-kubernetes-preserve-unknown-fields"] = True
        if self.chance(0.1):
            schema["minProperties"] = self.random.randint(1, 3)
        if self.chance(0.1):
            schema["maxProperties"] = self.random.randint(1, 3)
        if self.chance(0.1):
            schema["x-kubernetes-map-type"] = self.random.choice(("atomic", "granular"))
        return schema

    def _free(self, _depth: int) -> Schema:
        schema: Schema = {"x-kubernetes-preserve-unknown-fields": True}
        if self.chance(0.6):
            schema["type"] = "object"
            schema["x-kubernetes-embedded-resource"] = self.chance(0.4)
        return schema

    def _map(self, depth: int) -> Schema:
        additional: Any = self.schema(depth - 1) if self.chance(0.85) else self.chance(0.5)
        return {"type": "object", "additionalProperties": additional}

    def _array(self, depth: int) -> Schema:
        schema: Schema = {"type": "array", "items": self.schema(depth - 1)}
        if self.chance(0.2):
            schema["minItems"] = self.random.randint(0, 2)
        if self.chance(0.2):
            schema["maxItems"] = self.random.randint(1, 3)
        if self.chance(0.4):
            self._list_type(schema)
        return schema

    def _list_type(self, schema: Schema) -> None:
        items = schema["items"]
        if items.get("type") == "object" and items.get("properties"):
            keys = self.random.sample(sorted(items["properties"]), 1)
            schema["x-kubernetes-list-type"] = "map"
            schema["x-kubernetes-list-map-keys"] = keys
            if self.chance(0.9):
                items["required"] = sorted({*items.get("required", ()), *keys})
                items.pop("nullable", None)
                items["properties"][keys[0]] = {"type": self.random.choice(("string", "integer"))}
        else:
            schema["x-kubernetes-list-type"] = self.random.choice(("set", "atomic"))

    def _junctor(self, schema: Schema) -> None:
        name = self.random.choice(("allOf", "anyOf", "oneOf", "not"))
        if name == "anyOf" and "anyOf" in schema:
            return
        rules = [self._rule(schema) for _ in range(self.random.randint(1, 3))]
        schema[name] = rules[0] if name == "not" else rules

    def _rule(self, schema: Schema) -> Schema:
        if schema.get("properties"):
            name = self.random.choice(sorted(schema["properties"]))
            rule: Schema = {"properties": {name: self._rule(schema["properties"][name])}}
            return self.random.choice(({"required": [name]}, rule, {**rule, "required": [name]}))
        if schema.get("type") in ("integer", "number"):
            return self._bounds({"minimum": self.random.choice((0, 5))}, (1, 10))
        if schema.get("type") == "array":
            return {"minItems": self.random.randint(0, 2)}
        return {"pattern": self.random.choice(PATTERNS)}

    # Values

    def value(self, schema: Schema, depth: int, *, wild: float = 0.12) -> Any:
        """A value for a schema; `wild` is how often any part of it is something else."""
        if self.chance(wild):
            return self.anything(2)
        if self.chance(wild / 2) or (schema.get("nullable") and self.chance(0.2)):
            return None
        if schema.get("enum") and self.chance(0.8):
            return copy.deepcopy(self.random.choice(schema["enum"]))
        kind = "int-or-string" if schema.get("x-kubernetes-int-or-string") else schema.get("type")
        if kind in CHOICES:
            return self.random.choice(CHOICES[kind])
        if kind == "array":
            size = self.random.randint(0, 4)
            return [self.value(schema["items"], depth + 1, wild=wild / 2) for _ in range(size)]
        return self._fields(schema, depth, wild) if kind == "object" else self.anything(2)

    def changed(self, value: Any, schema: Schema) -> Any:
        """A value in which most is as it was."""
        if isinstance(value, dict) and schema.get("properties"):
            fields = schema["properties"]
            return {
                name: self.changed(item, fields[name]) if name in fields else item
                for name, item in value.items()
                if not self.chance(0.05)
            }
        if isinstance(value, list) and isinstance(schema.get("items"), dict) and self.chance(0.8):
            items = [self.changed(item, schema["items"]) for item in value]
            return self.random.sample(items, len(items)) if self.chance(0.2) else items
        return self.value(schema, 0) if self.chance(0.15) else value

    def _fields(self, schema: Schema, depth: int, wild: float) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if schema.get("x-kubernetes-embedded-resource"):
            fields = {"apiVersion": "v1", "kind": self.random.choice(("Pod", "bad kind", ""))}
            fields["metadata"] = {"name": "x", **({"odd": 1} if self.chance(0.3) else {})}
            if self.chance(wild):
                name = self.random.choice(("apiVersion", "kind", "metadata"))
                fields[name] = self.random.choice((1, None, [], {"labels": {"a": 1}}, {"labels": "x"}))
        for name, sub in (schema.get("properties") or {}).items():
            if self.chance(0.75):
                fields[name] = self.value(sub, depth + 1, wild=wild)
        additional = schema.get("additionalProperties")
        if additional is not None:
            below = additional if isinstance(additional, dict) else {}
            for name in self.random.sample(("k1", "k2", "k3"), self.random.randint(0, 3)):
                fields[name] = self.value(below, depth + 1, wild=wild)
        if self.chance(wild):
            fields[self.random.choice(("unknown", "alpha", "zeta"))] = self.anything(1)
        return fields

    def anything(self, depth: int) -> Any:
        kinds = 6 if depth else 4
        match self.random.randrange(kinds):
            case 0:
                return self.random.choice(TEXTS)
            case 1:
                return self.random.choice(NUMBERS)
            case 2:
                return self.chance(0.5)
            case 3:
                return None
            case 4:
                return [self.anything(depth - 1) for _ in range(self.random.randint(0, 3))]
        return {
            name: self.anything(depth - 1) for name in self.random.sample(NAMES, self.random.randint(0, 2))
        }
