"""Jinja2 templates of an evil author: grammatical more often than not, and meant to hurt."""

from __future__ import annotations

from typing import Final

from nodemanager.plan.templates.jinja_filters import FILTERS, METHODS, tests
from support.author_words import ESCAPES, FORMATS, NUMBERS, OPENERS, PATTERNS, Words

_ROOTS: Final = (
    "Node", "Nodes", "node.Labels", "Node.Status", "Node.Name", "Node.Secrets", "x", "ns", "ns.t", "loop",
    "self", "lipsum", "cycler", "joiner", "namespace", "range", "dict", "caller", "varargs", "kwargs",
    "config", "request", "none", "true", "m", "loop.index", "loop.cycle", "loop.changed", "Node.items",
    "x.count", "fail",
)  # fmt: skip
_OPERATORS: Final = (
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "~",
    "==",
    "<",
    "in",
    "and",
    "or",
    "is",
    "if 1 else",
)
_ARGUMENTS: Final = {
    "truncate": "NN", "indent": "N", "replace": "TT", "regex_replace": "PT", "regex_search": "P",
    "regex_findall": "P", "join": "T", "round": "N", "default": "A", "groupby": "T", "map": "T",
    "select": "T", "selectattr": "TT", "sort": "", "sum": "", "to_nice_json": "N", "hash": "T", "int": "AN",
    "wordcount": "", "urlencode": "",
}  # fmt: skip


class JinjaAuthor:
    """Writes one template after the other."""

    def __init__(self, seed: int) -> None:
        self.words = Words(seed)
        self.draw = self.words.random

    def template(self) -> str:
        """Return the next one."""
        head = "{% set x = [1, 'a'] %}{% set ns = namespace(t=()) %}{% macro m(a=1) %}{{ a }}{% endmacro %}"
        body = head if not self.words.one_in(8) else ""
        body += "".join(self._statement(2) for _ in range(self.draw.randrange(1, 3)))
        if self.words.one_in(25):
            at = self.draw.randrange(len(body) + 1)
            body = body[:at] + self.draw.choice((*OPENERS, "{{", "%}", "'", "(", "\ud800")) + body[at:]
        return body

    def _statement(self, depth: int) -> str:  # noqa: C901 - a grammar, a rule a line
        inner = "" if depth <= 0 else self._statement(depth - 1)
        expression = self._any(depth)
        match self.draw.randrange(18):
            case 0:
                return f"{{% if {expression} %}}{inner}{{% else %}}{inner}{{% endif %}}"
            case 1 | 2:
                return f"{{% for x in {self._list(depth)} %}}{inner}{{% endfor %}}"
            case 3:
                return f"{{% set x = {expression} %}}{inner}"
            case 4 | 5:  # what doubles with each turn
                grown = self.draw.choice(
                    ("(ns.t, ns.t)", "[ns.t, ns.t]", "ns.t ~ ns.t ~ 'a'", "ns.t + ns.t", "{ns.t: ns.t}",
                     "{'a': ns.t, 'b': ns.t}", "dict(a=ns.t, b=ns.t)", "m(ns.t)", "ns.t * 3", "(ns.t,)")
                )  # fmt: skip
                turns = self.draw.choice((10, 24, 45, 60, 1000))
                return f"{{% for i in range({turns}) %}}{{% set ns.t = {grown} %}}{{% endfor %}}{inner}"
            case 6:
                return f"{{% macro m(a) %}}{inner}{{{{ m(a) }}}}{{% endmacro %}}{{{{ m({expression}) }}}}"
            case 7:
                many = self.draw.choice((3, 60, 300))
                return "{% if 1 %}" * many + inner + "{% endif %}" * many
            case 8:
                opened, closed = self.draw.choice(
                    (("(", ")"), ("[", "]"), ("{1:", "}"), ("not ", ""), ("-", ""))
                )
                many = self.draw.choice((3, 60, 3000))
                return "{{ " + opened * many + expression + closed * many + " }}"
            case 9:
                return f"{{% set x %}}{inner}{expression}{{% endset %}}{{{{ x }}}}"
            case 10:
                return f"{{% filter {self._filter(depth)} %}}{inner}{{% endfilter %}}"
            case 11:
                return f"{{% call(q) m({expression}) %}}{inner}{{% endcall %}}"
            case 12:
                return f"{{% do {expression} %}}{{% block b %}}{inner}{{% endblock %}}"
        return f"{{{{ {expression} }}}}{inner}"

    def _any(self, depth: int) -> str:  # noqa: C901
        if depth <= 0:
            return self.draw.choice((self._text(0), self._number(), self.draw.choice(_ROOTS)))
        part = self._any(depth - 1)
        match self.draw.randrange(14):
            case 0 | 1 | 2 | 3:
                return f"({part}) | {self._filter(depth)}"
            case 4:
                return f"({part}) {self.draw.choice(_OPERATORS)} ({self._any(depth - 1)})"
            case 5:
                return f"({part}).{self.draw.choice((*METHODS, *ESCAPES))}({self._any(depth - 1)})"
            case 6:
                return f"({part})['{self.draw.choice(ESCAPES)}']"
            case 7:
                return self._escape()
            case 8:
                return f"({part}) is {self.draw.choice([*tests(), 'callable', 'escaped'])} {self._number()}"
            case 9:
                return f"({part})[{self._number()}:{self._number()}]"
            case 10:
                return f"{{({part}): {self._text(depth)}}}"
            case 11:
                return f"({part}, {part}, [{part}])"
            case 12:
                return self._list(depth)
        return self._text(depth)

    def _escape(self) -> str:
        """Return one of the ways that led out of other sandboxes."""
        name, other = self.draw.choice(ESCAPES), self.draw.choice(ESCAPES)
        root = self.draw.choice(_ROOTS)
        return self.draw.choice(
            (
                f"{root}.{name}.{other}", f"{root}|attr('{name}')", f"{root}['{name}']['{other}']",
                f"''['__cla' ~ 'ss__'].{name}", f"({root}|map(attribute='{name}'))|list", f"{root}.{name}()",
                f"cycler.__init__.__globals__.os.popen('touch /tmp/{name}').read()",
                f"'{{0.{name}}}'.format({root})",
                f"'%s' % {root}", f"{root}|string|map('{name}')|list", f"[{root}]|groupby('{name}.{other}')",
                f"[{root}]|sort(attribute='{name}')", f"[{root}]|sum(attribute='{name}', start={root})",
                f"[{root}]|selectattr('{name}', 'callable')|list", f"{root}(**{{'{name}': 1}})",
                f"namespace({name}=1).{other}", f"[{root}]|map('{self.draw.choice(list(FILTERS))}')|list",
            )
        )  # fmt: skip

    def _filter(self, depth: int) -> str:
        name = self.draw.choice([*FILTERS, "attr", "xmlattr", "pprint", "format", "tojson", "safe"])
        kinds = _ARGUMENTS.get(name, "A" * self.draw.choice((0, 0, 0, 1, 2)))
        arguments = [self._argument(each, depth - 1) for each in kinds]
        return f"{name}({', '.join(arguments)})" if arguments else name

    def _argument(self, kind: str, depth: int) -> str:
        match kind:
            case "T":
                return self._text(depth)
            case "N":
                return self._number()
            case "P":
                return self._literal(self.draw.choice(PATTERNS))
        return self._any(depth)

    def _text(self, depth: int) -> str:
        if depth > 0 and self.words.one_in(3):
            piece = self._literal(self.draw.choice(OPENERS))
            return f"({piece} * {self.words.times()})" + self.draw.choice(
                (
                    "",
                    "|from_yaml",
                    "|from_json",
                    "|regex_findall('(a+)+$')",
                    "|replace('a', 'aa')",
                    "|truncate(9)",
                )
            )
        return self._literal(self.words.text() if not self.words.one_in(9) else self.draw.choice(FORMATS))

    def _list(self, depth: int) -> str:
        options = (
            "Nodes",
            "x",
            f"range({self.words.times()})",
            "Node.Labels.items()",
            "[1, [2, [3]]]",
            "'abc'",
        )
        return self.draw.choice((*options, self._any(depth - 1) if depth > 0 else "Nodes"))

    def _number(self) -> str:
        return f"({self.draw.choice((*NUMBERS, 1.5, 1e300))})"

    def _literal(self, text: str) -> str:
        if self.words.one_in(20):
            return "'\\ud800\\x00\\N{DIGIT ONE}'"
        written = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
        return f"'{written}'"
