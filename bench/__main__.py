"""`python -m bench`: measure, print one table, say which goals are met."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import (
    agent,
    audit,
    binary,
    drift,
    edge,
    embedded,
    footprint,
    informer,
    liveness,
    maintenance,
    memory,
    onefile,
    processes,
    report,
    rollouts,
    startup,
    workqueue,
)
from bench.settings import Settings

_MODULES = (
    informer,
    memory,
    footprint,
    workqueue,
    startup,
    embedded,
    agent,
    edge,
    binary,
    onefile,
    drift,
    liveness,
    maintenance,
    rollouts,
    audit,
)
BENCHMARKS: dict[str, Callable[[Settings], report.Section]] = {module.NAME: module.run for module in _MODULES}


def main(argv: Sequence[str] | None = None) -> int:
    """Run what was asked for; 1 = a goal was missed and `--strict` given, 2 = something did not run."""
    options = _parser().parse_args(argv)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        print(f"cannot run {unknown[0]!r}: there is {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    try:
        sections = _measure(options.names or list(BENCHMARKS), quick=options.quick, lease=options.lease)
    except processes.ChildFailed as error:
        print(error, file=sys.stderr)
        return 2
    print(report.table(sections))
    if options.quick:
        print("\nA quick run: it shows that everything works, not how fast it is.")
    print(f"\n{report.verdict(sections)}")
    if options.json:
        _write(options.json, sections, quick=options.quick)
    return 1 if options.strict and not report.all_met(sections) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}; default all"
    )
    parser.add_argument("--quick", action="store_true", help="measure little, to see that everything works")
    parser.add_argument(
        "--lease", type=int, default=60, metavar="SECONDS",
        help="how long Leases of hosts last that stay alive in liveness; default 60, up to 600 where the"
        " machine is too busy to renew 10,000 of them that often",
    )  # fmt: skip
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a goal is missed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there as well")
    return parser


def _measure(names: Sequence[str], *, quick: bool, lease: int) -> list[report.Section]:
    with processes.serving() as endpoint:
        settings = Settings(endpoint, quick, lease)
        sections = []
        for name in names:
            print(f"measuring {name} ...", file=sys.stderr, flush=True)
            sections.append(BENCHMARKS[name](settings))
        return sections


def _write(path: Path, sections: Sequence[report.Section], *, quick: bool) -> None:
    document = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "quick": quick,
        "sections": report.as_json(sections),
    }
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
