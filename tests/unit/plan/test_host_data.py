"""Data of hosts: every case under cases/data, and which templates read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec
from nodemanager.api.common.declarations import File
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeSpec
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan.data import explaining, layers, merging
from nodemanager.plan.data.reading import DataError
from nodemanager.plan.templates import may_read, reads_data

FOLDER = Path(__file__).parents[2] / "cases" / "data"


def cases(name: str) -> list[Any]:
    found = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return [pytest.param(case, id=case["name"]) for case in found]


def host(case: dict[str, Any]) -> ManagedNode:
    given = case.get("node", {})
    spec = ManagedNodeSpec(data=long(given.get("data", {})))
    return ManagedNode(metadata=ObjectMeta(name="web1", labels=given.get("labels", {})), spec=spec)


def declared(one: dict[str, Any]) -> ConfigSet:
    spec = {key: value for key, value in one.items() if key not in ("name", "labels")}
    meta = ObjectMeta(name=one["name"], labels=one.get("labels", {}))
    return ConfigSet(metadata=meta, spec=msgspec.convert(spec, ConfigSetSpec))


def long(values: dict[str, Any]) -> dict[str, Any]:
    """Return values with the long ones written out."""
    return {
        key: value["repeat"] * value["times"] if isinstance(value, dict) and "repeat" in value else value
        for key, value in values.items()
    }


def stored(case: dict[str, Any], field: str) -> dict[str, Any]:
    found = {name: long(values) for name, values in case.get(field, {}).items()}
    if field == "secrets":  # as the API has them
        for values in found.values():
            values.update({key: each.encode() for key, each in values.items() if isinstance(each, str)})
    return found


@pytest.mark.parametrize("case", cases("merging"))
def test_layers_become_one(case: dict[str, Any]) -> None:
    node, sets = host(case), [declared(one) for one in case["sets"]]
    found = layers.layers(reversed(sets), node)
    assert found == layers.layers(sets, node)  # whatever order they come in
    data = merging.host_data(found, stored(case, "secrets"), stored(case, "configMaps"))
    assert data.values() == case["data"]
    assert msgspec.json.encode(data.values()) == msgspec.json.encode(data.values(), order="sorted")
    assert data.values(secrets=False) == case.get("public", case["data"])
    assert sorted(data.secret_keys) == case.get("secretKeys", [])
    assert [str(one) for one in data.clashes] == case.get("clashes", [])
    if "layers" in case:
        assert [str(one) for one in found] == case["layers"]
    for key, expected in case.get("explain", {}).items():
        path = explaining.find(data, key)
        assert (path is None) == (expected is None), key
        if path is not None:
            assert ".".join(path) == key
            said = [f"{one.layer} {one.effect}" for one in explaining.explain(data, path)]
            assert said == expected, key
    for key, losers in case.get("over", {}).items():
        path = explaining.find(data, key)
        assert path is not None
        assert [str(one) for one in explaining.beaten(data, path)] == losers, key


@pytest.mark.parametrize("case", cases("refused"))
def test_what_cannot_be_used_is_named(case: dict[str, Any]) -> None:
    names = case.get("names", {})
    refs = [
        *(
            {"configMapRef": {"name": name}}
            for name in (*case.get("configMaps", {}), *names.get("configMaps", ()))
        ),
        *({"secretRef": {"name": name}} for name in case.get("secrets", {})),
    ]
    sets = [declared({"name": "site", "nodeSelector": {}, "dataFrom": refs})]
    with pytest.raises(DataError) as refused:
        merging.host_data(
            layers.layers(sets, host(case)), stored(case, "secrets"), stored(case, "configMaps")
        )
    assert str(refused.value).startswith(case["error"])
    assert "geheim" not in str(refused.value)


GO, JINJA = "gotemplate", "jinja"


@pytest.mark.parametrize(
    ("engine", "template", "reads", "secret"),
    [
        (GO, "data: {{ .Node.Name }}", False, None),
        (GO, "{{ .Data.ntp.server }}", True, False),
        (GO, "{{ .data.ntp }}", True, False),
        (GO, '{{ (ds "data").Data.ntp }}', True, False),
        (GO, '{{ (ds "data").Node.Name }}', False, None),
        (GO, '{{ (ds "data") | toJSON }}', True, True),
        (GO, "{{ .Data.db.password }}", True, True),
        (GO, "{{ with .Data }}{{ .ntp }}{{ end }}", True, True),
        (GO, '{{ index .Data "ntp" }}', True, True),
        (GO, "{{ range $k, $v := .Data }}{{ $k }}{{ end }}", True, True),
        (GO, "{{ toJSON . }}", True, True),
        (GO, "{{ $.Data.ntp }}", True, False),
        (GO, '{{ print "}}" .Data.db }}', True, True),
        (GO, '{{ template "t" $ }}', True, True),
        (GO, "{{ tpl .Data.ntp }}", True, True),
        (GO, "{{- /* don't, of \"data */ -}}{{ .Node.Name }}", False, None),
        (GO, '{{ print "a \\" b" .Node.Name }} data', False, None),
        (GO, "{{ tpl .Node.ConfigMaps.x }}", True, True),
        (JINJA, "{% for k, v in Data.items() %}{{ k }}{% endfor %}", True, True),
        (JINJA, "{{ Data.get('d' ~ 'b') }}", True, True),
        (JINJA, "data: {{ Node.Name }}", False, None),
        (JINJA, "{{ Data.ntp }}", True, False),
        (JINJA, "{% for one in data.ntp %}{{ one }}{% endfor %}", True, False),
        (JINJA, "{{ Data['db'] }}", True, True),
        (JINJA, "{{ Data | tojson }}", True, True),
    ],
)
def test_which_templates_read_it(engine: str, template: str, reads: bool, secret: bool | None) -> None:
    """`secret` is whether one may read what is below db; in doubt, all of this is so."""
    file = File(path="/x", template=template, engine=engine)
    assert reads_data(file) == reads
    if secret is not None:
        assert may_read(file, {"db"}) == secret


@pytest.mark.parametrize("kind", [ConfigSet, ManagedNode])
def test_what_would_end_others_is_not_even_read(kind: type[Any]) -> None:
    """Who compares or encodes it would fail."""

    def nested(levels: int) -> bytes:
        return b'{"spec":{"data":' + b'{"a":' * levels + b"1" + b"}" * levels + b"}}"

    assert msgspec.json.decode(nested(60), type=kind).spec.data
    for levels in (70, 900):
        with pytest.raises(msgspec.ValidationError, match="data is nested deeper than 64 levels"):
            msgspec.json.decode(nested(levels), type=kind)
    one = msgspec.json.decode(b'{"spec":{"data":{"a":[100000000000000000000, 1]}}}', type=kind)
    assert msgspec.json.encode(one.spec.data) == b'{"a":[1e20,1]}'
    with pytest.raises(msgspec.ValidationError, match="data has a number that is too large; write it in"):
        msgspec.json.decode(b'{"spec":{"data":{"a":1' + b"0" * 400 + b"}}}", type=kind)
