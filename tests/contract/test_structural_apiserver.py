"""What a schema means, compared with a real kube-apiserver.

The same schemas and objects, random ones too, go to the server and to our functions: accepted or
refused, the causes and their texts, what is pruned and defaulted, and what is warned of must agree.
"""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from nodemanager.kube.schemas.formats import STRING_FORMATS
from support.apiserver import ApiServer
from support.format_texts import FORMAT_TEXTS, PATTERN_TEXTS, PATTERNS
from support.random_schemas import Maker
from support.refused_schemas import refused_schemas
from support.schema_judge import PROBE, Judge, difference, judging, our_schema_causes, our_verdict, thing

SCHEMAS = 12
OBJECTS = 15
MODES = ("Ignore", "Warn", "Strict")
SOME = settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
LOOSE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


async def test_schemas_are_refused_for_the_same_reasons(kube: ApiServer) -> None:
    async with judging(kube) as judge:
        for name, schema in refused_schemas().items():
            _, verdict = await judge.install(schema)
            assert verdict.code == 422, name
            assert our_schema_causes(schema) == verdict.causes, name


@SOME
@given(seed=st.integers(0, 2**32))
async def test_random_objects_fare_the_same(kube: ApiServer, seed: int) -> None:
    maker = Maker(Random(seed))
    async with judging(kube) as judge:
        installed = await install(judge, [maker.root() for _ in range(SCHEMAS)])
        for kind, schema in installed.items():
            for number in range(OBJECTS):
                mode = MODES[number % len(MODES)]
                content = {"spec": maker.value(schema["properties"]["spec"], 0)}
                theirs = await judge.create(kind, content, mode)
                ours = our_verdict(schema, thing(kind, content), mode)
                assert not difference(ours, theirs), (mode, schema, content)
        await judge.drop(list(installed))


@SOME
@given(seed=st.integers(0, 2**32))
async def test_random_updates_fare_the_same(kube: ApiServer, seed: int) -> None:
    maker = Maker(Random(seed))
    async with judging(kube) as judge:
        strict = await install(judge, [maker.root() for _ in range(SCHEMAS)])
        await judge.drop(list(strict))
        schemas = [probed(schema) for schema in strict.values()]
        kinds = list(await install(judge, [LOOSE for _ in schemas]))
        stored = {
            kind: [await store(judge, kind, maker, schema, number) for number in range(OBJECTS)]
            for kind, schema in zip(kinds, schemas, strict=True)
        }
        for kind, schema in zip(kinds, schemas, strict=True):
            assert (await judge.replace_schema(kind, schema)).code == 200
        for kind, schema in zip(kinds, schemas, strict=True):
            await judge.probed(kind)
            for old in stored[kind]:
                new = {**old, "spec": maker.changed(copy.deepcopy(old["spec"]), schema["properties"]["spec"])}
                theirs = await judge.update(kind, new)
                assert not difference(our_verdict(schema, new, "Ignore", old), theirs), (schema, old, new)
        await judge.drop(kinds)


async def test_formats_are_as_strict(kube: ApiServer) -> None:
    fields = {f"f{name}": {"type": "string", "format": name} for name in STRING_FORMATS}
    fields |= {"unknown": {"type": "string", "format": "odd"}, "number": {"type": "integer", "format": "odd"}}
    await compare_texts(kube, fields, FORMAT_TEXTS)


async def test_patterns_match_the_same(kube: ApiServer) -> None:
    fields = {f"f{index}": {"type": "string", "pattern": text} for index, text in enumerate(PATTERNS)}
    await compare_texts(kube, fields, PATTERN_TEXTS)


async def compare_texts(kube: ApiServer, fields: dict[str, Any], texts: tuple[str, ...]) -> None:
    """Try every text in every field."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    async with judging(kube) as judge:
        installed = await install(judge, [schema])
        assert installed, "the schema is refused"
        for kind in installed:
            for text in texts:
                content = {"spec": dict.fromkeys(fields, text)}
                theirs = await judge.create(kind, content)
                ours = our_verdict(schema, thing(kind, content), "Ignore")
                told = set(theirs.causes) ^ set(ours.causes)
                assert not told, text
        await judge.drop(list(installed))


async def install(judge: Judge, schemas: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Install what is not refused, and check that we refuse the rest in the same words."""
    installed = {}
    for schema in schemas:
        kind, verdict = await judge.install(schema)
        assert our_schema_causes(schema) == verdict.causes, schema
        if verdict.code == 201:
            installed[kind] = schema
    for kind in installed:
        await judge.served(kind)
    return installed


def probed(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema that can be told from a loose one."""
    return {**schema, "properties": {**schema["properties"], PROBE: {"type": "boolean"}}}


async def store(judge: Judge, kind: str, maker: Maker, schema: dict[str, Any], number: int) -> dict[str, Any]:
    spec = maker.value(schema["properties"]["spec"], 0)
    verdict = await judge.store(kind, {"spec": spec, "metadata": {"name": f"it-{number}"}})
    assert verdict.code == 201, verdict
    return {"spec": None, **verdict.body}
