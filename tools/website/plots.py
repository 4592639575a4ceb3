"""The plots of docs/benchmarks.md, from the numbers in its table of results."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tools.website.bars import Bar, Plot
from tools.website.results import Result, Results

_PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
_DRIFTS: Final = {
    "content of a file": "content of a file",
    "mode of a file": "mode of a file",
    "file deleted": "file deleted",
    "link swapped": "link swapped",
    "directory replaced": "directory replaced",
    "unit stopped": "unit stopped, its stop included",
    "unit disabled": "unit disabled, of 110",
}
_REQUESTS: Final = {
    "get": "get, p50",
    "list of 1000": "list of 1000, p50",
    "create": "create, p50",
    "apply of a status": "apply of a status, p50",
    "event to 500 watchers": "500 watchers, write to event, p50",
    "cold start": "cold start to /readyz",
    "memory, 10,000 nodes": "resident, 10000 nodes",
}
_PASSES: Final = {
    "no-op pass": "no-op pass, CPU, to the floor's work alone",
    "no-op, reads every file": "no-op pass that reads every file, CPU, to the floor's work alone",
    "cold pass, on disk": "cold pass, everything on disk, to the floor's work alone",
    "one spoilt file, on disk": "pass over one spoilt file, on disk, to the floor's work alone",
}
_PROCESSES: Final = {
    "bare interpreter": "resident, bare interpreter",
    "import asyncio, ssl": "resident, import asyncio, ssl",
    "our client, watching": "resident, ours",
    "official client, watching": "resident, official client",
}


def files() -> dict[str, str]:
    """Return every plot, by its path below the root of the repository."""
    results = Results(_PAGE.read_text(encoding="utf-8"))
    plots = {
        "drift": _drift(results),
        "embedded": _embedded(results),
        "agent": _agent(results),
        "memory": _memory(results),
    }
    return {f"docs/pictures/plot-{name}.svg": plot.draw() for name, plot in plots.items()}


def _drift(results: Results) -> Plot:
    bars = []
    for label, what in _DRIFTS.items():
        middle, worst = (results.row("drift", f"{what}, {each}").seconds() for each in ("p50", "p99"))
        bars.append(Bar(label, worst * 1000, f"{_time(middle)}, p99 {_time(worst)}", ours=True))
    for name in ("CFEngine", "Puppet"):
        seconds = results.row("drift", f"default interval of {name}").seconds()
        bars.append(Bar(f"{name} looks every", seconds * 1000, _time(seconds)))
    ticks = {1.0: "1 ms", 10: "10 ms", 100: "0.1 s", 1000: "1 s", 60_000: "1 min", 3_600_000: "1 h"}
    caption = "median and p99; bars end at p99, on a logarithmic scale"
    return Plot("From a foreign change to its repair", caption, tuple(bars), ticks, log=True)


def _embedded(results: Results) -> Plot:
    ratios = {label: results.row("embedded", what).times() for label, what in _REQUESTS.items()}
    bars = tuple(Bar(label, ratio, f"{ratio:g}x", begin=1, ours=ratio < 1) for label, ratio in ratios.items())
    ticks = {0.1: "0.1x", 0.2: "0.2x", 0.5: "0.5x", 1: "the same", 2: "2x"}
    caption = "kube-apiserver with etcd is 1x; to the left is less"
    return Plot("The embedded API: time at the median, and memory", caption, bars, ticks, log=True)


def _agent(results: Results) -> Plot:
    rows = {label: results.row("agent", what) for label, what in _PASSES.items()}
    bars = tuple(_with_goal(label, row) for label, row in rows.items())
    ticks = {float(value): f"{value}x" for value in range(7)}
    caption = "a C program that does this and nothing else is 1x; | is the goal"
    return Plot("A pass over 1,000 files", caption, bars, ticks)


def _with_goal(label: str, row: Result) -> Bar:
    return Bar(label, row.times(), f"{row.times():g}x", ours=True, goal=row.goal_times())


def _memory(results: Results) -> Plot:
    sizes = {label: results.row("process", what).mebibytes() for label, what in _PROCESSES.items()}
    bars = tuple(Bar(label, size, f"{size:g} MiB", ours="our" in label) for label, size in sizes.items())
    ticks = {float(value): f"{value} MiB" for value in range(0, 61, 20)}
    return Plot("Memory of a process that watches hosts", "resident", bars, ticks)


def _time(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:g} s" if seconds < 60 else f"{seconds / 60:g} min"
