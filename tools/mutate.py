"""Makes small mistakes in modules where a mistake costs most, and sees whether their tests notice.

    tools/mutants.toml: module -> its tests, and mistakes that change nothing
    per mistake: a copy of src/ that has it -> the tests of the module, up to the first that fails

    make mutate                                             a sample of every module
    make mutate ARGS='--samples 0 host/files/commits'       all mistakes in one
    make mutate ARGS='--seed 2 --match _set_attributes'     another sample, of one function

Ends with 1 where the tests of a module notice fewer than nine of ten.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import os
import random
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Literal

from tools import mutations
from tools.mutant_runs import Run, Tests

ROOT: Final = Path(__file__).parent.parent
TABLE: Final = ROOT / "tools/mutants.toml"
FLOOR: Final = 0.9
SAMPLES: Final = 24
Fate = Literal["killed", "timeout", "survived"]


@dataclass(frozen=True, slots=True)
class Module:
    """A module and what is known of its mistakes."""

    name: str
    tests: tuple[str, ...]
    """Arguments of pytest."""
    equivalent: frozenset[tuple[str, str]]
    """Function and change of mistakes that are none."""

    @property
    def path(self) -> str:
        """Where it is, below src."""
        return f"nodemanager/{self.name}.py"


@dataclass(slots=True)
class Score:
    """What became of the mistakes in a module."""

    module: Module
    sample: list[mutations.Mutant]
    total: int
    fates: dict[int, Fate] = field(default_factory=dict)

    def count(self, fate: Fate) -> int:
        """Return how many ended so."""
        return list(self.fates.values()).count(fate)

    @property
    def share(self) -> float:
        """Return which part was noticed."""
        return 1 - self.count("survived") / len(self.fates) if self.fates else 1.0


def load(table: Path = TABLE) -> list[Module]:
    """Return the modules, in the order of the table."""
    found = tomllib.loads(table.read_text())
    equivalent: dict[str, set[tuple[str, str]]] = {}
    for entry in found.get("equivalent", []):
        for change in entry["changes"]:
            equivalent.setdefault(entry["module"], set()).add((entry["function"], change))
    if strange := equivalent.keys() - found["modules"].keys():
        raise ValueError(f"cannot use {table.name}: no tests are named for {', '.join(sorted(strange))}")
    left = tuple(f"--deselect={test}" for test in found["explorers"])
    return [
        Module(name, (*tests, *left), frozenset(equivalent.get(name, ())))
        for name, tests in found["modules"].items()
    ]


def stale(module: Module, found: Iterable[mutations.Mutant]) -> list[str]:
    """Return what is said to be equivalent, and no longer exists."""
    known = {(one.scope, one.change) for one in found}
    return [f"{scope}: {change}" for scope, change in sorted(module.equivalent - known)]


def draw(
    module: Module, found: Sequence[mutations.Mutant], samples: int, seed: int
) -> list[mutations.Mutant]:
    """Return a sample; the same seed draws the same, and more of it where more are asked for."""
    order = list(found)
    random.Random(f"{seed} {module.name}").shuffle(order)  # noqa: S311 - nobody has to be surprised
    chosen = order[: samples or None]
    return sorted(
        (one for one in chosen if (one.scope, one.change) not in module.equivalent), key=lambda one: one.line
    )


class Copies:
    """Copies of src/, one per process, in which mistakes are made."""

    def __init__(self, folder: Path, count: int) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        self._seconds = itertools.count(1)
        for number in range(count):
            copy = folder / str(number)
            shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
            self._free.put(copy)

    def run(self, path: str, source: str, tests: Tests) -> Run:
        """Run tests with another source of one module."""
        copy = self._free.get()
        target = copy / "src" / path
        kept = target.read_text()
        try:
            target.write_text(source)
            # Python tells stale bytecode by size and second, and many mistakes are of one size.
            os.utime(target, (next(self._seconds),) * 2)
            return tests.run(copy)
        finally:
            target.write_text(kept)
            self._free.put(copy)


def judge(module: Module, copies: Copies, options: argparse.Namespace, pool: ThreadPoolExecutor) -> Score:
    """Make the mistakes of a sample, one after the other, and see what the tests say."""
    tree = ast.parse((ROOT / "src" / module.path).read_text())
    found = mutations.mutants(tree)
    if gone := stale(module, found):
        sys.exit(f"cannot use {TABLE.name}: {module.name} has no such change any more: {'; '.join(gone)}")
    wanted = [one for one in found if options.match in f"{one.scope}:{one.line}: {one.change}"]
    score = Score(module, draw(module, wanted, options.samples, options.seed), len(found))
    unchanged = copies.run(module.path, ast.unparse(tree), Tests(ROOT, module.tests, options.seed))
    if unchanged.code:
        sys.exit(f"cannot judge {module.name}: its tests fail without any mistake:\n{unchanged.output}")
    tests = Tests(ROOT, module.tests, options.seed, timeout=10 + 3 * unchanged.seconds)
    sources = [one.write(tree) for one in score.sample]
    runs = pool.map(lambda source: copies.run(module.path, source, tests), sources)
    for number, run in enumerate(runs):
        score.fates[number] = "timeout" if run.code is None else "killed" if run.code else "survived"
    return score


def report(scores: Iterable[Score]) -> str:
    """Return the table, and where the survivors are."""
    lines = [
        "| module | possible | made | noticed | by timeout | survived | share |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    survivors = []
    for score in scores:
        late, left = score.count("timeout"), score.count("survived")
        noticed = score.count("killed") + late
        cells = (score.module.name, score.total, len(score.fates), noticed, late, left, f"{score.share:.0%}")
        lines.append(f"| {' | '.join(map(str, cells))} |")
        survivors += [
            f"src/{score.module.path}:{mutant.line}: {mutant.scope}: {mutant.change}"
            for number, mutant in enumerate(score.sample)
            if score.fates[number] == "survived"
        ]
    return "\n".join([*lines, "", *survivors])


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="make mutate")
    parser.add_argument("modules", nargs="*", help="as in the table: host/files/commits; default: all")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="mistakes per module; 0 = all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--match", default="", help="only mistakes whose `function:line: change` contains this"
    )
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args()
    if os.geteuid():
        parser.error("cannot judge tests that need root and are skipped without: run sudo make mutate")
    modules = load()
    if unknown := set(options.modules) - {one.name for one in modules}:
        parser.error(f"cannot judge {', '.join(sorted(unknown))}: not in {TABLE.name}; add its tests there")
    scores = []
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder, ThreadPoolExecutor(options.jobs) as pool:
        copies = Copies(Path(folder), options.jobs)
        for module in modules:
            if not options.modules or module.name in options.modules:
                scores.append(judge(module, copies, options, pool))
                sys.stderr.write(f"{module.name}: {scores[-1].share:.0%} of {len(scores[-1].fates)}\n")
    sys.stdout.write(report(scores) + "\n")
    return int(any(score.share < FLOOR for score in scores))


if __name__ == "__main__":
    sys.exit(main())
