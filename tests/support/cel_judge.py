"""Do kube-apiserver and we make the same of an expression?

All expressions become rules of one CustomResourceDefinition, each comparing an expression with
the value that we found. What it refuses to install does not compile there; what refuses an
object has another value there, or an error that the refusal names.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from nodemanager.kube.cel.errors import CelError, CompileError
from nodemanager.kube.cel.program import compile_expression
from nodemanager.kube.cel.schemas import converter, type_of_schema
from nodemanager.kube.cel.values import UInt, keys_of
from support.cel_table import SPEC, SPEC_SCHEMA
from support.raw_api import RawApi

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_INDEX = re.compile(r"x-kubernetes-validations\[(\d+)\]\.rule$")
_FOLDED = re.compile(r"program instantiation failed: (.*)", re.DOTALL)
_ERROR = re.compile(r"Invalid value: \"object\": (.*) (?:evaluating|for) rule: #(\d+)", re.DOTALL)
_OVERLOAD = re.compile(r"'(.*)': call arguments did not match .*", re.DOTALL)


class Verdict(NamedTuple):
    """What became of an expression: refused, error (with its text) or value (as a CEL literal)."""

    kind: str
    text: str = ""


class Difference(NamedTuple):
    """An expression about which we disagree."""

    expression: str
    ours: Verdict
    theirs: Verdict


def ours(expression: str) -> Verdict:
    """Return what we make of an expression about SPEC."""
    self_type = type_of_schema(SPEC_SCHEMA)
    assert self_type is not None
    try:
        program = compile_expression(expression, {"self": self_type})
        return Verdict("value", literal(program.evaluate({"self": converter(SPEC_SCHEMA)(SPEC)})))
    except CompileError as why:
        return Verdict("refused", why.message)
    except CelError as why:
        return Verdict("error", str(why))


def literal(value: Any) -> str:
    """Return a value as an expression."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, UInt):
        return f"{int(value)}u"
    if isinstance(value, float):
        return f"double('{value!r}')"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    assert isinstance(value, dict), f"the table should not have values like {value!r}"
    pairs = zip(keys_of(value), value.values(), strict=True)
    return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in pairs) + "}"


def differences(api: RawApi, expressions: Sequence[str], plural: str) -> list[Difference]:
    """Return the expressions about which kube-apiserver and we disagree."""
    mine = [ours(expression) for expression in expressions]
    rules = [_rule(*pair) for pair in zip(expressions, mine, strict=True)]
    theirs = _installed(api, rules, plural)
    kept = [index for index in range(len(rules)) if index not in theirs]
    for index, verdict in _applied(api, [rules[index] for index in kept], plural).items():
        theirs[kept[index]] = verdict
    return [
        Difference(expression, verdict, theirs.get(index, Verdict("value")))
        for index, (expression, verdict) in enumerate(zip(expressions, mine, strict=True))
        if not _agree(verdict, theirs.get(index, Verdict("value")))
    ]


def _agree(mine: Verdict, theirs: Verdict) -> bool:
    if mine.kind in ("refused", "value"):  # how a compiler words a refusal is its own business
        return mine.kind == theirs.kind
    return mine.kind == theirs.kind and theirs.text.startswith(mine.text)  # Go's parsers add details


def _rule(expression: str, mine: Verdict) -> str:
    # The line break ends a comment that the expression may end with.
    return f"({expression}\n) == {mine.text}" if mine.kind == "value" else f"[{expression}\n].size() == 0"


def _installed(api: RawApi, rules: list[str], plural: str) -> dict[int, Verdict]:
    """Return what becomes of the rules that cannot be installed."""
    answer = api.ask("POST", f"{CRDS}?dryRun=All", _crd(rules, plural))
    verdicts: dict[int, Verdict] = {}
    for cause in answer.body.get("details", {}).get("causes", []):
        if found := _INDEX.search(cause["field"]):
            folded = _FOLDED.search(cause["message"])
            what = "costly" if "estimated" in cause["message"] else "refused"
            verdict = Verdict("error", folded[1]) if folded else Verdict(what, cause["message"])
            verdicts[int(found[1])] = verdict
    return verdicts


def _applied(api: RawApi, rules: list[str], plural: str) -> dict[int, Verdict]:
    """Return what becomes of the rules that refuse the object."""
    created = api.ask("POST", CRDS, _crd([*rules, "false"], plural))
    assert created.code == 201, created.body["message"]
    obj = {"apiVersion": "cel.test/v1", "kind": plural.capitalize(), "metadata": {"name": "x"}, "spec": SPEC}
    deadline = time.monotonic() + 30
    while (answer := api.ask("POST", f"/apis/cel.test/v1/{plural}", obj)).code != 422:
        assert time.monotonic() < deadline, answer.body
    verdicts: dict[int, Verdict] = {}
    for cause in answer.body["details"]["causes"]:
        if found := _ERROR.fullmatch(cause["message"]):
            overload = _OVERLOAD.fullmatch(found[1])
            verdicts[int(found[2])] = Verdict("error", overload[1] if overload else found[1])
        else:
            index = int(cause["message"].rpartition("#")[2])
            verdicts[index] = Verdict("another value")
    assert verdicts.pop(len(rules), None), "the rule that never holds did"
    return verdicts


def _crd(rules: list[str], plural: str) -> dict[str, Any]:
    validations = [{"rule": rule, "message": f"#{index}"} for index, rule in enumerate(rules)]
    spec = {**SPEC_SCHEMA, "x-kubernetes-validations": validations}
    return crd_of({"type": "object", "properties": {"spec": spec}}, plural)


def crd_of(schema: dict[str, Any], plural: str) -> dict[str, Any]:
    """Return the definition of a kind with that schema in the group cel.test."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "kind": plural.capitalize()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.cel.test"},
        "spec": {"group": "cel.test", "scope": "Cluster", "names": names, "versions": [version]},
    }
