"""Finds out what the program compiles while its modules are imported; see prepared.py.

boot.py runs it in place of nodemanager where it is packed, which is in the first of two builds only: what it
writes to stdout is packed into the second one.
"""

import importlib
import marshal
import sys

import prepared  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STARTED = (
    "nodemanager.cli.commands.running.agent", "nodemanager.cli.commands.host.apply",
    "nodemanager.cli.commands.host.status",
    "nodemanager.cli.applying.converging", "nodemanager.cli.manifests.checked_manifests",
    "nodemanager.cli.manifests.manifest_folder", "nodemanager.cli.by_hand",
    "nodemanager.rendering.child", "nodemanager.rendering.renderer", "nodemanager.agent.declared.contents",
)  # fmt: skip
"""What hosts start often. Of all the rest it would take more room than it saves time."""


class Recorder:
    """Stands in for what compiles, and keeps what it was given."""

    def __init__(self) -> None:
        self.found: dict[str, bytes] = {}

    def hook(self, name: str, names: "dict[str, Any]") -> None:
        """Change a module that compiles."""
        if name == "dataclasses":
            names["exec"] = self._execute
        elif name == "collections":
            names["eval"] = self._evaluate
        elif name == "re._compiler":
            self._expressions(names)
        elif name == "msgspec._utils":
            self._annotations(names)

    def _execute(self, text: str, globals_: "dict[str, Any]", locals_: "dict[str, Any]") -> None:
        exec(self._compiled("exec", text), globals_, locals_)  # noqa: S102 - what dataclasses would have done

    def _evaluate(self, text: str, globals_: "dict[str, Any]") -> object:
        return eval(self._compiled("eval", text), globals_)  # noqa: S307 - what namedtuple would have done

    def _compiled(self, kind: str, text: str) -> "Any":
        code = compile(text, "<string>", kind, dont_inherit=True)
        # How often objects are shared differs the first time.
        self.found[prepared.name_of(kind, text)] = marshal.dumps(marshal.loads(marshal.dumps(code)))  # noqa: S302
        return code

    def _annotations(self, names: "dict[str, Any]") -> None:
        refer, evaluate_type = names["_forward_ref"], names["_eval_type"]
        texts: dict[int, str] = {}
        different: set[str] = set()

        def forward_ref(text: str) -> object:
            made = refer(text)
            texts[id(made)] = text
            return made

        def eval_type(hint: object, globals_: "dict[str, Any]", locals_: "dict[str, Any]") -> object:
            text = texts.pop(id(hint), None)
            found: object = evaluate_type(hint, globals_, locals_)
            if text is not None:
                code = compile(text, "<string>", "eval", dont_inherit=True)
                name = prepared.name_of("hint", text)
                # One that refers to something by a string in it is more than an expression.
                if repr(eval(code, globals_, locals_)) != repr(found):  # noqa: S307 - what typing did
                    different.add(name)
                self.found[name] = marshal.dumps(marshal.loads(marshal.dumps(code)))  # noqa: S302
                for one in different:
                    self.found.pop(one, None)
            return found

        names["_forward_ref"], names["_eval_type"] = forward_ref, eval_type

    def _expressions(self, names: "dict[str, Any]") -> None:
        usual, real = names["compile"], names["_sre"]
        last: list[tuple[Any, ...]] = []

        class Noting:
            """The module _sre, but for one function."""

            def __getattr__(self, name: str) -> object:
                return getattr(real, name)

            @staticmethod
            def compile(*arguments: "Any") -> object:
                last[:] = [arguments]
                return real.compile(*arguments)

        def compile_expression(pattern: "Any", flags: int = 0) -> object:
            last.clear()
            made = usual(pattern, flags)
            if isinstance(pattern, (str, bytes)) and last:
                pattern_, all_flags, code, groups, index, by_number = last[0]
                arguments = (
                    pattern_,
                    int(all_flags),
                    [int(one) for one in code],
                    groups,
                    dict(index),
                    tuple(by_number),
                )
                plain = marshal.dumps(marshal.loads(marshal.dumps(arguments)))  # noqa: S302
                self.found[prepared.name_of_expression(pattern, flags)] = plain
            return made

        names["_sre"], names["compile"] = Noting(), compile_expression


def annotate(base: "type[Any]") -> None:
    """Have the annotations of types evaluated as if something were decoded to them."""
    utils = sys.modules["msgspec._utils"]
    for one in base.__subclasses__():
        utils.get_class_annotations(one)
        annotate(one)


def main(recorder: Recorder) -> None:
    """Import what is started, and write what that compiled."""
    from nodemanager.rendering import child

    for name in (*STARTED, *child.NEEDED, *sys.modules["boot"].LATE):
        hasattr(
            importlib.import_module(name), "ran"
        )  # one that runs late runs when it is asked for something
    annotate(sys.modules["nodemanager.kube.objects"].Struct)
    marshal.dump(sorted(recorder.found.items()), sys.stdout.buffer)
