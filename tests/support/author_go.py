"""Go templates of an evil author: grammatical more often than not, and meant to hurt."""

from __future__ import annotations

from typing import Final

from nodemanager.plan.templates.functions.library import names
from support.author_words import ESCAPES, FORMATS, NUMBERS, OPENERS, PATTERNS, Words

FUNCTIONS: Final = tuple(name for name in names() if name not in ("break", "continue"))
_TYPED: Final = {
    "strings.Repeat": "NT", "printf": "FAAA", "print": "AAA", "regexp.Replace": "PTT", "regexp.Find": "PT",
    "regexp.FindAll": "PNT", "regexp.Match": "PT", "regexp.Split": "PNT", "data.YAML": "D",
    "data.YAMLArray": "D", "data.TOML": "D", "data.JSON": "D", "data.JSONArray": "D", "data.CSV": "D",
    "toYAML": "A", "toJSON": "A", "strings.Indent": "NTT", "strings.WordWrap": "NT", "strings.Abbrev": "NT",
    "strings.Trunc": "NT", "sort": "L", "coll.Sort": "TL", "uniq": "L", "flatten": "L", "coll.Merge": "MM",
    "dict": "TATATA", "slice": "AAA", "append": "AL", "index": "LN", "keys": "M", "values": "M",
    "strings.Split": "TT", "strings.SplitN": "TTN", "replaceAll": "TTT", "strings.ReplaceAll": "TTT",
    "join": "LT", "seq": "NNN", "math.Pow": "NN", "math.Mul": "NN", "net.CIDRSubnets": "NT",
    "net.CIDRSubnetSizes": "NNT", "net.CIDRHost": "NT", "tpl": "TA", "tmpl.Inline": "TA",
    "crypto.PBKDF2": "TTNN", "crypto.WPAPSK": "TT", "conv.ParseInt": "TNN", "coll.GoSlice": "LNN",
    "html": "T", "js": "T", "urlquery": "T", "filepath.Match": "PT", "path.Clean": "T",
    "strings.Title": "T", "strings.Slug": "T", "strings.CamelCase": "T", "quote": "T", "shellQuote": "T",
    "conv.URL": "T", "ds": "T", "toJSONPretty": "TA",
}  # fmt: skip
"""What functions take: texts, numbers, lists, maps, patterns, formats, documents, anything."""
_ROOTS: Final = (
    ".", "$", ".Node", ".Nodes", ".Node.Labels", ".Node.Status", ".Node.Name", ".Node.Secrets", "$x", "$y",
    ".Name", "(ds `data`)", "nil", "true", ".Node.ConfigMaps", ".Node.Status.Interfaces",
)  # fmt: skip


class GoAuthor:
    """Writes one template after the other."""

    def __init__(self, seed: int) -> None:
        self.words = Words(seed)
        self.draw = self.words.random

    def template(self) -> str:
        """Return the next one."""
        body = "{{ $x := slice 1 2 }}{{ $y := dict `a` 1 }}" if not self.words.one_in(8) else ""
        body += "".join(self._statement(2) for _ in range(self.draw.randrange(1, 3)))
        if self.words.one_in(25):  # a slip of the pen
            at = self.draw.randrange(len(body) + 1)
            body = body[:at] + self.draw.choice((*OPENERS, "{{", "}}", '"', "(", "\ud800")) + body[at:]
        return body

    def _statement(self, depth: int) -> str:
        inner = "" if depth <= 0 else self._statement(depth - 1)
        expression = self._any(depth)
        match self.draw.randrange(15):
            case 0:
                return f"{{{{ if {expression} }}}}{inner}{{{{ else }}}}{inner}{{{{ end }}}}"
            case 1 | 2:
                return f"{{{{ range {self._list(depth)} }}}}{inner}{{{{ end }}}}"
            case 3:
                return f"{{{{ with {expression} }}}}{inner}{{{{ else }}}}x{{{{ end }}}}"
            case 4:
                return f"{{{{ $x = {expression} }}}}{inner}"
            case 5:  # what doubles with each turn
                grown = self.draw.choice(
                    ("print $x $x", "slice $x $x", "dict `a` $x `b` $x", "append $x (slice $x)")
                )
                turns = self.draw.choice((10, 30, 60))
                return f"{{{{ range seq 1 {turns} }}}}{{{{ $x = {grown} }}}}{{{{ end }}}}{inner}"
            case 6:
                calling = f'{{{{ template "t" {expression} }}}}'
                return f'{{{{ define "t" }}}}{inner}{{{{ template "t" . }}}}{{{{ end }}}}{calling}'
            case 7:
                many = self.draw.choice((3, 60, 200))
                return "{{ if 1 }}" * many + inner + "{{ end }}" * many
            case 8:
                many = self.draw.choice((3, 60, 3000))
                return "{{ " + "(" * many + expression + ")" * many + " }}"
            case 9:
                return "{{/* " + inner.replace("*/", "") + " */}}"
        return f"{{{{ {expression} }}}}{inner}" if self.words.one_in(3) else f"{{{{ {expression} }}}}"

    def _any(self, depth: int) -> str:
        match self.draw.randrange(8):
            case 0:
                return self._number()
            case 1:
                return self._text(depth)
            case 2:
                return self._field()
        if depth <= 0:
            return self._literal(self.words.text())
        if self.words.one_in(4):
            return f"({self._any(depth - 1)}) | {self.draw.choice(FUNCTIONS)}"
        return self._call(self.draw.choice(FUNCTIONS if self.words.one_in(3) else tuple(_TYPED)), depth)

    def _call(self, name: str, depth: int) -> str:
        typed = _TYPED.get(name, "A" * self.draw.randrange(4))
        return " ".join((name, *(f"({self._argument(each, depth - 1)})" for each in typed)))

    def _argument(self, kind: str, depth: int) -> str:
        if self.words.one_in(15):
            kind = "A"
        match kind:
            case "T":
                return self._text(depth)
            case "N":
                return self._number()
            case "L":
                return self._list(depth)
            case "M":
                return self.draw.choice((".Node.Labels", "dict `a` 1", "$x", "dict `a` (dict `b` .)", "."))
            case "P":
                return self._literal(self.draw.choice(PATTERNS))
            case "F":
                return self._literal(self.draw.choice(FORMATS) * self.draw.choice((1, 1, 5, 200)))
            case "D":
                return f"strings.Repeat {self.words.times()} {self._literal(self.draw.choice(OPENERS))}"
        return self._any(depth)

    def _text(self, depth: int) -> str:
        if depth > 0 and self.words.one_in(4):
            return f"strings.Repeat {self.words.times()} {self._literal(self.words.text()[:20])}"
        return self._literal(self.words.text())

    def _list(self, depth: int) -> str:
        options = (
            ".Nodes",
            "$x",
            f"seq 1 {self.words.times()}",
            f"slice {self._number()} 1 2",
            ".",
            self._number(),
        )
        return self.draw.choice((*options, self._any(depth - 1) if depth > 0 else ".Nodes"))

    def _field(self) -> str:
        return self.draw.choice(_ROOTS) + (f".{self.draw.choice(ESCAPES)}" if self.words.one_in(5) else "")

    def _number(self) -> str:
        return str(self.draw.choice((*NUMBERS, 1.5, 1e300)))

    def _literal(self, text: str) -> str:
        if "`" not in text and self.words.one_in(2):
            return f"`{text}`"
        written = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
        return f'"{written}"'
