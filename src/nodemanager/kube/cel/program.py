"""An expression, ready to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nodemanager.kube.cel.ast import AstNode, Ident, Macro, children, size
from nodemanager.kube.cel.checker import check
from nodemanager.kube.cel.decisive import DecisiveParts, parts_of
from nodemanager.kube.cel.errors import CompileError
from nodemanager.kube.cel.evaluator import compile_node
from nodemanager.kube.cel.parser import parse
from nodemanager.kube.cel.scope import PER_CALL_LIMIT, Code, EvaluationScope
from nodemanager.kube.cel.types import Type

MAX_DEPTH = 160
"""How deep a tree may be: closures call each other, and the stack of the interpreter has an end."""


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression: what it was written as, its type, the variables it reads."""

    source: str
    type: Type
    names: frozenset[str]
    code: Code
    steps: int
    parts: DecisiveParts | None = None
    """What of `self` decides its value, where that is nothing else."""

    def run(self, scope: EvaluationScope) -> Any:
        """Return the value in a scope; raise CelError when there is none."""
        scope.spend(self.steps)
        return self.code(scope)

    def evaluate(self, variables: Mapping[str, Any], limit: int = PER_CALL_LIMIT) -> Any:
        """Return the value for these variables; raise CelError when there is none."""
        return self.run(EvaluationScope(variables, limit))


def compile_expression(source: str, variables: Mapping[str, Type]) -> Program:
    """Parse, check and compile an expression; raise CompileError when it is wrong."""
    tree = parse(source)
    if _deeper_than(tree, MAX_DEPTH):
        raise CompileError(f"expression recursion limit exceeded: {MAX_DEPTH}", source)
    result = check(tree, source, variables)
    names = _free_names(tree)
    return Program(source, result, names, compile_node(tree), size(tree), parts_of(tree, names))


def _deeper_than(tree: AstNode, limit: int) -> bool:
    level = [tree]
    for _ in range(limit):
        level = [child for node in level for child in children(node)]
        if not level:
            return False
    return True


def _free_names(node: AstNode) -> frozenset[str]:
    if isinstance(node, Ident):
        return frozenset({node.name})
    inner: frozenset[str] = frozenset()
    for child in children(node):
        inner |= _free_names(child)
    if isinstance(node, Macro):
        inner = (inner - frozenset(node.variables)) | _free_names(node.target)
    return inner
