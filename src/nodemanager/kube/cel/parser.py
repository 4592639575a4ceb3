"""Tokens -> syntax tree, by precedence climbing; macros are recognised on the way."""

from __future__ import annotations

from nodemanager.kube.cel import ast
from nodemanager.kube.cel.errors import CompileError
from nodemanager.kube.cel.lexer import LexToken, tokenize

MAX_NESTING = 80
"""How deep parentheses and calls may nest; deeper text would exhaust the stack of the interpreter."""
MAX_CHAIN = 160
"""How many operators of the same kind may follow each other, and how deep a tree may be."""

_RELATIONS = frozenset({"<", "<=", ">", ">=", "==", "!=", "in"})
_LEVELS: list[frozenset[str]] = [_RELATIONS, frozenset("+-"), frozenset("*/%")]
_NO_MESSAGES = "undeclared reference to a message type: such messages are not served"
_CONSTANTS = {"true": True, "false": False, "null": None}
RESERVED = frozenset(
    (
        "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop",
        "package", "namespace", "return", "var", "void", "while",
    )
)  # fmt: skip
# The number of arguments of each macro -> how many of them are names of variables.
_MACROS: dict[str, dict[int, int]] = {
    "all": {2: 1, 3: 2},
    "exists": {2: 1, 3: 2},
    "exists_one": {2: 1},
    "existsOne": {2: 1, 3: 2},
    "map": {2: 1, 3: 1},
    "filter": {2: 1},
    "transformList": {3: 2, 4: 2},
    "transformMap": {3: 2, 4: 2},
    "transformMapEntry": {3: 2, 4: 2},
    "optMap": {2: 1},
    "optFlatMap": {2: 1},
    "sortBy": {2: 1},
}


def parse(source: str) -> ast.AstNode:
    """Return the syntax tree of an expression; raise CompileError where it is not one."""
    parser = _Parser(source)
    tree = parser.expression()
    parser.expect("end", "<EOF>")
    return tree


class _Parser:
    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = tokenize(source)
        self.next = 0
        self.depth = 0

    def error(self, message: str, token: LexToken) -> CompileError:
        return CompileError(f"Syntax error: {message}", self.source, token.position)

    def take(self) -> LexToken:
        token = self.tokens[self.next]
        self.next += 1
        return token

    def at(self, text: str) -> bool:
        token = self.tokens[self.next]
        return token.value == text and token.kind in ("op", "ident")

    def accept(self, text: str) -> LexToken | None:
        return self.take() if self.at(text) else None

    def expect(self, kind: str, text: str) -> LexToken:
        token = self.tokens[self.next]
        if token.kind != kind or (text and token.value != text):
            wanted = f"'{text}'" if text and kind != "end" else text or kind
            raise self.error(f"mismatched input {_shown(token)} expecting {wanted}", token)
        if kind != "end":
            self.next += 1
        return token

    def expression(self) -> ast.AstNode:
        self.depth += 1
        if self.depth > MAX_NESTING:
            message = f"expression recursion limit exceeded: {MAX_NESTING}"
            raise CompileError(message, self.source, self.tokens[self.next].position)
        condition = self._logical("||", "&&")
        if mark := self.accept("?"):
            chosen = self._logical("||", "&&")
            self.expect("op", ":")
            condition = ast.FunctionCall(mark.position, "_?_:_", None, (condition, chosen, self.expression()))
        self.depth -= 1
        return condition

    def _logical(self, operator: str, inner: str) -> ast.AstNode:
        """Read a chain of || (or &&) into one flat call, so that long chains stay shallow trees."""
        parts: list[ast.AstNode] = []
        position = -1
        while True:
            parts.append(self._logical(inner, "") if inner else self._binary(0))
            found = self.accept(operator)
            if found is None:
                break
            position = found.position
        return (
            parts[0] if len(parts) == 1 else ast.FunctionCall(position, f"_{operator}_", None, tuple(parts))
        )

    def _binary(self, level: int) -> ast.AstNode:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        count = 0
        while self.tokens[self.next].value in _LEVELS[level] and self.tokens[self.next].kind != "literal":
            operator = self.take()
            count += 1
            if count > MAX_CHAIN:
                raise CompileError(f"expression recursion limit exceeded: {MAX_CHAIN}", self.source)
            name = "@in" if operator.value == "in" else f"_{operator.value}_"
            left = ast.FunctionCall(operator.position, name, None, (left, self._binary(level + 1)))
        return left

    def _unary(self) -> ast.AstNode:
        token = self.tokens[self.next]
        if token.kind != "op" or token.value not in "!-":
            return self._postfix(self._primary())
        count = 0
        while self.accept(token.value):
            count += 1
        following = self.tokens[self.next]
        negated = count % 2 == 1
        if token.value == "-" and negated and following.kind == "literal" and _is_signed(following.value):
            self.next += 1
            return self._postfix(ast.Literal(token.position, -following.value))
        operand = self._postfix(self._primary())
        name = "!_" if token.value == "!" else "-_"
        return ast.FunctionCall(token.position, name, None, (operand,)) if negated else operand

    def _postfix(self, node: ast.AstNode) -> ast.AstNode:
        count = 0
        while self.at(".") or self.at("["):
            count += 1
            if count > MAX_CHAIN:
                raise CompileError(f"expression recursion limit exceeded: {MAX_CHAIN}", self.source)
            token = self.take()
            optional = self.accept("?") is not None
            if token.value == "[":
                index = self.expression()
                self.expect("op", "]")
                node = ast.Index(token.position, node, index, optional)
            else:
                node = self._member(node, token, optional=optional)
        if self.at("{") and isinstance(node, ast.Ident | ast.Select):
            if isinstance(node, ast.Select):
                raise CompileError(_NO_MESSAGES, self.source)
            return self._message(node)
        return node

    def _message(self, name: ast.Ident) -> ast.AstNode:
        fields: list[str] = []
        values: list[ast.AstNode] = []
        opening = self.take()
        while not self.at("}"):
            fields.append(self.expect("ident", "").value)
            self.expect("op", ":")
            values.append(self.expression())
            if not self.accept(","):
                break
        self.expect("op", "}")
        return self._postfix(ast.MessageLiteral(opening.position, name.name, tuple(fields), tuple(values)))

    def _member(self, node: ast.AstNode, dot: LexToken, *, optional: bool) -> ast.AstNode:
        name = self.expect("ident", "")
        if name.value in _CONSTANTS or name.value == "in":
            raise self.error(f"no viable alternative at input '.{name.value}'", name)
        if optional or not self.at("("):
            return ast.Select(dot.position, node, name.value, optional)
        opening = self.take()
        args = self._arguments(")")
        variables = _MACROS.get(name.value, {}).get(len(args))
        if variables is None:
            return ast.FunctionCall(opening.position, name.value, node, args)
        return self._macro(name, opening, node, args, variables)

    def _macro(
        self,
        name: LexToken,
        opening: LexToken,
        target: ast.AstNode,
        args: tuple[ast.AstNode, ...],
        count: int,
    ) -> ast.AstNode:
        if name.value == "sortBy" and not isinstance(args[0], ast.Ident):
            raise CompileError(
                "sortBy() variable name must be a simple identifier", self.source, opening.position
            )
        names: list[str] = []
        for arg in args[:count]:
            if not isinstance(arg, ast.Ident):
                raise CompileError("argument must be a simple name", self.source, arg.position)
            names.append(arg.name)
        if len(set(names)) != len(names):
            raise CompileError("duplicate variable name", self.source, args[1].position)
        return ast.Macro(opening.position, name.value, target, tuple(names), args[count:])

    def _arguments(self, closing: str) -> tuple[ast.AstNode, ...]:
        args: list[ast.AstNode] = []
        if not self.accept(closing):
            args.append(self.expression())
            while self.accept(","):
                args.append(self.expression())
            self.expect("op", closing)
        return tuple(args)

    def _primary(self) -> ast.AstNode:
        token = self.take()
        if token.kind == "literal":
            if type(token.value) is int and token.value == 1 << 63:
                raise self.error("invalid int literal", token)
            return ast.Literal(token.position, token.value)
        if token.kind == "ident":
            return self._name(token)
        match token.value if token.kind == "op" else "":
            case "(":
                inner = self.expression()
                self.expect("op", ")")
                return inner
            case "[":
                return self._list(token)
            case "{":
                return self._map(token)
            case ".":
                return self._name(self.expect("ident", ""))
        raise self.error(f"mismatched input {_shown(token)} expecting an expression", token)

    def _name(self, token: LexToken) -> ast.AstNode:
        name = token.value
        if name in _CONSTANTS:
            return ast.Literal(token.position, _CONSTANTS[name])
        if name == "in" or name in RESERVED:
            raise self.error(f"reserved identifier: {name}", token)
        if not self.at("("):
            return ast.Ident(token.position, name)
        opening = self.take()
        args = self._arguments(")")
        if name == "has" and len(args) == 1:
            selected = args[0]
            if not isinstance(selected, ast.Select) or selected.test:
                raise CompileError("invalid argument to has() macro", self.source, opening.position)
            return ast.Select(
                opening.position, selected.operand, selected.field, selected.optional, test=True
            )
        return ast.FunctionCall(opening.position, name, None, args)

    def _list(self, opening: LexToken) -> ast.AstNode:
        items: list[ast.AstNode] = []
        optional: list[bool] = []
        while not self.at("]"):
            optional.append(self.accept("?") is not None)
            items.append(self.expression())
            if not self.accept(","):
                break
        self.expect("op", "]")
        return ast.ListLiteral(opening.position, tuple(items), tuple(optional))

    def _map(self, opening: LexToken) -> ast.AstNode:
        keys: list[ast.AstNode] = []
        values: list[ast.AstNode] = []
        optional: list[bool] = []
        while not self.at("}"):
            optional.append(self.accept("?") is not None)
            keys.append(self.expression())
            self.expect("op", ":")
            values.append(self.expression())
            if not self.accept(","):
                break
        self.expect("op", "}")
        return ast.MapLiteral(opening.position, tuple(keys), tuple(values), tuple(optional))


def _is_signed(value: object) -> bool:
    return type(value) in (int, float)


def _shown(token: LexToken) -> str:
    return token.value if token.kind == "end" else f"'{token.value}'"
