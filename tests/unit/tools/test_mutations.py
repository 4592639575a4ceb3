"""`make mutate`: which mistakes it makes, how it judges, and that its table is about what there is."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[3]))  # tools are no part of what is installed

from tools import mutant_runs, mutate, mutations

from support.root_tree import needs_root


def changes(source: str) -> list[str]:
    """Return all mistakes of a function with this body."""
    tree = ast.parse("def f():\n" + textwrap.indent(textwrap.dedent(source), "    "))
    return [one.change for one in mutations.mutants(tree)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a == b", ["a == b -> a != b"]),
        ("x = a < b", ["a < b -> a <= b", "a < b -> a >= b"]),
        ("x = a is None", ["a is None -> a is not None"]),
        ("x = a in (b, c)", ["a in (b, c) -> a not in (b, c)", "a in (b, c) -> a in (c,)",
                             "a in (b, c) -> a in (b,)"]),
        ("x = a and b", ["a and b -> a or b", "a and b -> b", "a and b -> a"]),
        ("x = not a", ["not a -> a"]),
        ("x = 1", ["1 -> 2 in x = 1"]),
        ("x = True", ["True -> False in x = True"]),
        ("x = a + b", ["a + b -> a - b"]),
        ("x = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC",
         ["os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC -> os.O_RDONLY | os.O_CLOEXEC"]),
        ("check(a)", ["check(a) -> pass"]),
        ("await check(a)", ["await check(a) -> pass"]),
        ("self.x = a", ["self.x = a -> pass"]),
        ("x = a", []),
        ("del a, b", []),
        ("del a.b", ["del a.b -> pass"]),
        ("x += a", ["x += a -> pass"]),
        ("raise Wrong(a)", ["raise Wrong(a) -> pass"]),
        ("return a", ["return a -> return None"]),
        ("return", ["return -> pass"]),
        ("if a:\n    pass", ["if a: -> if not a:"]),
        ("x = a if b else c", ["a if b else c -> c if b else a"]),
        ("try:\n    pass\nexcept (A, B):\n    pass",
         ["except (A, B): -> except (B,):", "except (A, B): -> except (A,):"]),
        ("log.warning('x %s', 1)", []),
        ("x: int | None = a", []),
    ],
)  # fmt: skip
def test_mistakes(source: str, expected: list[str]) -> None:
    assert changes(source) == expected


def test_what_somebody_chose_is_left_alone_and_what_decides_is_not() -> None:
    tree = ast.parse(
        '"""Text."""\nMAX: int = 5 * 1024\nAnswer = Yes | list[No]\n'
        "class C:\n    size: int = 3\n    def m(self, a=4): return a > 2\n"
    )
    assert [(one.scope, one.change) for one in mutations.mutants(tree)] == [
        ("C.m", "return a > 2 -> return None"),
        ("C.m", "a > 2 -> a >= 2"),
        ("C.m", "a > 2 -> a <= 2"),
        ("C.m", "2 -> 3 in a > 2"),
    ]


def test_each_mutant_has_one_mistake_and_leaves_the_tree_as_it_was() -> None:
    tree = ast.parse("def f(a, b):\n    if a and b < 3:\n        return a\n    g()\n")
    before = ast.unparse(tree)
    texts = [one.write(tree) for one in mutations.mutants(tree)]
    assert ast.unparse(tree) == before
    assert len(set(texts)) == len(texts) > 5
    for text in texts:
        compile(text, "mutant", "exec")
        lines = [
            (old, new) for old, new in zip(before.splitlines(), text.splitlines(), strict=True) if old != new
        ]
        assert len(lines) == 1


def test_the_table_is_about_modules_tests_and_mistakes_that_exist() -> None:
    for module in mutate.load():
        tree = ast.parse((mutate.ROOT / "src" / module.path).read_text())
        assert mutate.stale(module, mutations.mutants(tree)) == []
        for test in module.tests:
            path, _, function = test.removeprefix("--deselect=").partition("::")
            text = (mutate.ROOT / path).read_text()
            assert not function or f"def {function}(" in text, test


@pytest.mark.parametrize("file", ["CONTRIBUTING.md", "tools/mutate.py"])
def test_whoever_copies_an_example_names_a_module_that_is_in_the_table(file: str) -> None:
    text, known = (mutate.ROOT / file).read_text(), {module.name for module in mutate.load()}
    examples = re.findall(r"make mutate ARGS='([^']*)'", text)
    named = {word for example in examples for word in example.split() if "/" in word}
    helped = re.findall(r"as in the table: ([\w/]+)", text)
    assert named, "an example that names a module"
    assert named | set(helped) <= known
    assert helped or file.endswith(".md")


def test_the_same_seed_draws_the_same_and_more_of_it() -> None:
    tree = ast.parse("\n".join(f"def f{number}(): return x == {number}" for number in range(50)))
    found, module = mutations.mutants(tree), mutate.Module("m", (), frozenset({("f7", "7 -> 8 in x == 7")}))

    def drawn(samples: int, seed: int) -> set[str]:
        return {f"{one.scope} {one.change}" for one in mutate.draw(module, found, samples, seed)}

    assert drawn(10, 1) == drawn(10, 1) < drawn(40, 1)
    assert drawn(10, 1) != drawn(10, 2)
    assert len(drawn(0, 1)) == len(found) - 1


@pytest.mark.parametrize(
    ("source", "code"),
    [
        pytest.param("ANSWER = 42\n", 0, id="as it shall be"),
        pytest.param("ANSWER = 43\n", 1, id="noticed"),
        pytest.param("import threading\nthreading.Event().wait()\n", None, id="never ends"),
    ],
)
def test_a_mistake_is_made_in_a_copy_and_noticed_by_tests_that_fail_or_hang(
    tmp_path: Path, source: str, code: int | None
) -> None:
    copy, root = tmp_path / "copy", tmp_path / "root"
    (copy / "src").mkdir(parents=True)
    root.mkdir()
    (copy / "src/mutated.py").write_text(source)
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (root / "test_it.py").write_text("def test_it():\n    import mutated\n    assert mutated.ANSWER == 42\n")
    timeout = 2.0 if code is None else 120.0
    run = mutant_runs.Tests(root, ("test_it.py",), 1, timeout=timeout).run(copy)
    assert run.code == code, run.output


@needs_root
def test_what_tests_had_mounted_when_they_were_ended_is_mounted_no_more(tmp_path: Path) -> None:
    copy, root, place = tmp_path / "copy", tmp_path / "root", tmp_path / "mounted"
    for one in (copy / "src", root, place):
        one.mkdir(parents=True)
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (root / "test_it.py").write_text(
        "import pathlib, subprocess, threading\n"
        "def test_it():\n"
        f"    subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', {str(place)!r}], check=True)\n"
        f"    pathlib.Path({str(tmp_path / 'reached')!r}).touch()\n"
        "    threading.Event().wait()\n"
    )
    run = mutant_runs.Tests(root, ("test_it.py",), 1, timeout=10.0).run(copy)
    assert run.code is None, run.output
    assert (tmp_path / "reached").exists(), run.output
    place.rmdir()


def score(*fates: mutate.Fate) -> mutate.Score:
    tree = ast.parse("def f():\n" + "".join(f"    g{number}()\n" for number in range(len(fates))))
    found = mutations.mutants(tree)
    return mutate.Score(mutate.Module("a/b", (), frozenset()), found, len(found), dict(enumerate(fates)))


def test_the_report_counts_and_names_what_survived() -> None:
    text = mutate.report([score("killed", "timeout", "survived", "killed")])
    assert "| a/b | 4 | 4 | 3 | 1 | 1 | 75% |" in text
    assert text.endswith("src/nodemanager/a/b.py:4: f: g2() -> pass")
    assert mutate.Score(mutate.Module("a", (), frozenset()), [], 0).share == 1.0
