"""No template, whatever it says, raises anything but TemplateError, hangs, or tells a secret."""

from __future__ import annotations

import base64
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.plan.templates import ENGINES, Data, TemplateError, render
from nodemanager.plan.templates.functions.library import names
from nodemanager.plan.templates.jinja_filters import FILTERS, METHODS
from support import examples
from support.template_cases import data

DATA = data()
SECONDS = 20

GO_WORDS = st.sampled_from(
    [
        *names(), ".Node", ".Nodes", ".Node.Secrets.password", ".Node.Labels", ".Name", "$x", "$", ".",
        "nil", '"a"', '"{{"', "`b`", "'c'", "0", "-1", "99999", "1.5", "true", "(", ")", "|", "[", "]",
        "if", "end", "range", "else", "with", "define", "template", "block", "$x :=", "$x =", ",", "}}",
        "{{", "{{-", "-}}", "/*", "*/", "\n", "\\", '"', "\u01c3", "\ud800", "%", "x.y.z",
    ]
)  # fmt: skip
JINJA_WORDS = st.sampled_from(
    [
        *FILTERS, *METHODS, "Node", "Nodes", "Node.Secrets.password", "Node.Labels", ".", "|", "(", ")",
        "[", "]", "{", "}", ":", ",", "~", "*", "**", "+", "-", "/", "//", "%", "==", "in", "is", "not",
        "and", "if", "else", "for", "endfor", "endif", "set", "x", "=", "macro", "endmacro", "call",
        "endcall", "filter", "block", "'a'", "0", "-1", "99999", "1.5", "none", "true", "{{", "}}", "{%",
        "%}", "{#", "#}", "\n", "__class__", "self", "loop", "namespace", "range", "dict", "fail",
        "\ud800", "do", "break",
    ]
)  # fmt: skip


def _quick(text: str, engine: str, given_data: Data = DATA) -> str:
    """Render, and return the output or the error; anything else fails the test."""
    began = time.process_time()
    try:
        out = render(text, given_data, engine=engine)
    except TemplateError as error:
        out = str(error)
        assert "hunter22" not in out
        assert "private-key" not in out
    assert time.process_time() - began < SECONDS
    return out


@settings(max_examples=examples.some(75), deadline=None)
@given(st.lists(GO_WORDS, max_size=12).map(lambda words: "{{ " + " ".join(words) + " }}"))
def test_go_templates_of_random_words(text: str) -> None:
    _quick(text, "gotemplate")


@settings(max_examples=examples.some(75), deadline=None)
@given(st.lists(JINJA_WORDS, max_size=12).map(lambda words: "{{ " + " ".join(words) + " }}"))
def test_jinja_templates_of_random_words(text: str) -> None:
    _quick(text, "jinja")


ARGUMENTS = st.sampled_from(
    [
        ".Node", ".Nodes", ".Node.Secrets", ".Node.Secrets.password", ".Node.Labels", '""', '"a"', '"a b"',
        "0", "-1", "3", "70", "99999999", "2.5", "true", "(coll.Slice)", "(coll.Slice 1 `a`)",
        "(coll.Dict `a` 1)", "(index .Node.Labels `x`)", '"10.0.0.0/8"', '"[a-z]+"', '"("', '"{"',
        '"{{ . }}"', "(base64.DecodeBytes `AP8=`)",
    ]
)  # fmt: skip


@settings(max_examples=examples.some(150), deadline=None)
@given(st.sampled_from(sorted(names())), st.lists(ARGUMENTS, max_size=4))
def test_every_function_takes_any_arguments(name: str, arguments: list[str]) -> None:
    _quick(f"{{{{ {name} {' '.join(arguments)} }}}}", "gotemplate")


@settings(max_examples=examples.some(100), deadline=None)
@given(
    st.sampled_from(
        ["Node", "Nodes", "'a b'", "3", "1.5", "none", "[1, 'a']", "{'a': 1}", "Node.Secrets.password"]
    ),
    st.sampled_from(sorted(FILTERS)),
    st.lists(st.sampled_from(["1", "'a'", "-3", "99999999", "none", "[2]", "'('", "true"]), max_size=3),
)
def test_every_filter_takes_any_arguments(value: str, name: str, arguments: list[str]) -> None:
    _quick(f"{{{{ {value} | {name}({', '.join(arguments)}) }}}}", "jinja")


@settings(max_examples=examples.some(50), deadline=None)
@given(st.text(max_size=60), st.sampled_from(ENGINES))
def test_any_text_is_a_template_or_an_error(text: str, engine: str) -> None:
    _quick("{{" + text, engine)
    _quick("{%" + text, engine)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=examples.some(40), deadline=None)
@given(st.dictionaries(st.text(max_size=8), JSON, max_size=4))
def test_any_json_can_be_the_data(node: dict[str, object]) -> None:
    node.pop("Secrets", None)
    for text in (
        "{{ .Node }}",
        "{{ toJSON .Node }}",
        "{{ toYAML .Node }}",
        "{{ range .Node }}{{ . }}{{ end }}",
    ):
        _quick(text, "gotemplate", Data(node=node))
    for text in ("{{ Node }}", "{{ Node | to_json }}", "{% for k, v in Node.items() %}{{ v }}{% endfor %}"):
        _quick(text, "jinja", Data(node=node))


SECRET = "correct horse"


@pytest.mark.parametrize(
    ("engine", "text"),
    [
        ("gotemplate", '{{ fail (base64.Decode .Node.Secrets.k) }}'),
        ("gotemplate", '{{ fail (strings.ToUpper (base64.Decode .Node.Secrets.k)) }}'),
        ("gotemplate", '{{ required (base64.Decode .Node.Secrets.k) "" }}'),
        ("gotemplate", "{{ index .Node.Labels `a` (base64.Decode .Node.Secrets.k) }}"),
        ("gotemplate", "{{ conv.ToInt (base64.Decode .Node.Secrets.k) }}"),
        ("gotemplate", "{{ tpl (printf `{{ %s }}` (base64.Decode .Node.Secrets.k)) }}"),
        ("gotemplate", "{{ regexp.Match (printf `(%s` (base64.Decode .Node.Secrets.k)) `x` }}"),
        ("gotemplate", "{{ data.YAML (printf `[%s` (base64.Decode .Node.Secrets.k)) }}"),
        ("gotemplate", "{{ tmpl.Exec (base64.Decode .Node.Secrets.k) }}"),
        ("gotemplate", "{{ ds (base64.Decode .Node.Secrets.k) }}"),
        ("gotemplate", "{{ printf (base64.Decode .Node.Secrets.k) 1 | conv.ToInt }}"),
        ("jinja", "{{ fail(Node.Secrets.k | b64decode) }}"),
        ("jinja", "{{ fail(Node.Secrets.k | b64decode | upper) }}"),
        ("jinja", "{{ Node.Labels[Node.Secrets.k | b64decode] }}"),
        ("jinja", "{{ Node[Node.Secrets.k | b64decode].x }}"),
        ("jinja", "{{ (Node.Secrets.k | b64decode) + 1 }}"),
        ("jinja", "{{ (Node.Secrets.k | b64decode)() }}"),
        ("jinja", "{{ Nodes | map(Node.Secrets.k | b64decode) | list }}"),
        ("jinja", "{{ ('[' ~ (Node.Secrets.k | b64decode)) | from_yaml }}"),
        ("jinja", "{{ [1] | select(Node.Secrets.k | b64decode) | list }}"),
    ],
)  # fmt: skip
def test_an_error_never_tells_a_secret(engine: str, text: str) -> None:
    secret = Data(
        node={"Labels": {"a": "b"}, "Secrets": {"k": base64.b64encode(SECRET.encode()).decode()}},
        nodes=[{"Name": "a"}],
    )
    with pytest.raises(TemplateError) as failure:
        render(text, secret, engine=engine)
    assert SECRET.lower() not in str(failure.value).lower()
    assert "horse" not in str(failure.value).lower()


def test_the_data_is_the_same_after_any_template() -> None:
    before = data().digest()
    mine = data()
    for text in ("{{ set `role` `x` .Node.Labels }}{{ merge .Node.Labels (dict `y` 1) }}{{ sort .Nodes }}",):
        render(text, mine)
    fresh = Data(node=mine.node, nodes=mine.nodes, values=mine.values)
    assert fresh.digest() == before


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "text",
    ["{{ 1 }}" * 5_001, "{{ " + "(" * 100_001, "{{ 1 }}" + "x" * 1_572_864],
    ids=["many", "long", "large"],
)
def test_what_takes_long_to_compile_is_refused_before(engine: str, text: str) -> None:
    with pytest.raises(TemplateError, match=r"more than 5000 actions|longer than"):
        render(text, DATA, engine=engine)


@pytest.mark.parametrize(
    "expression",
    [
        "loop.changed",
        "[loop.cycle]",
        "m",
        "(1, {'a': m})",
        "loop.changed ~ 'a'",
        "m|string",
        "[m]|join",
        "loop",
        "range",
    ],
)
def test_nothing_that_can_be_called_is_written_out(expression: str) -> None:
    """Python would print words of its own for it, with an address in them, so that no two hosts agree."""
    text = f"{{% macro m() %}}{{% endmacro %}}{{% for x in 'ab' %}}{{{{ {expression} }}}}{{% endfor %}}"
    assert "a function cannot be written out: call it with ()" in _quick(text, "jinja")


@pytest.mark.parametrize("expression", ["ns", "[ns]", "self", "ns ~ 1", "ns|string"])
def test_a_namespace_is_not_written_out(expression: str) -> None:
    """What is in it is weighed by nobody: 60 levels of it would be more than all memory."""
    grown = "{% for i in range(45) %}{% set ns.t = [ns.t, ns.t] %}{% endfor %}"
    text = f"{{% set ns = namespace(t=1) %}}{grown}{{{{ {expression} }}}}"
    assert "this is no value and cannot be written out" in _quick(text, "jinja")
