"""Process metrics agree with what the system says by another way."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import pytest
from prometheus_client import parser

from nodemanager.runtime import metrics, process_metrics


def scrape(proc: Path = process_metrics.PROC) -> dict[str, float]:
    """Register, render and parse."""
    registry = metrics.Registry()
    process_metrics.register(registry, proc)
    families = parser.text_string_to_metric_families(registry.render())
    return {sample.name: sample.value for family in families for sample in family.samples}


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc on this platform")
def test_values_are_plausible() -> None:
    values = scrape()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    assert values["process_cpu_seconds_total"] == pytest.approx(usage.ru_utime + usage.ru_stime, abs=1.0)
    assert 5e6 < values["process_resident_memory_bytes"] <= usage.ru_maxrss * 1024 * 1.1
    assert time.time() - 86400 < values["process_start_time_seconds"] <= time.time() + 1


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no /proc on this platform")
def test_open_files_are_counted() -> None:
    before = process_metrics.open_files()
    pair = os.pipe()
    try:
        assert process_metrics.open_files() == before + 2
    finally:
        for descriptor in pair:
            os.close(descriptor)


def test_the_command_name_may_hold_anything(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    numbers = " ".join(str(n) for n in range(4, 53))
    (tmp_path / "self/stat").write_text(f"7 (a) b (c) S {numbers}\n")
    (tmp_path / "stat").write_text("cpu  1 2 3\nbtime 1000\nprocesses 5\n")
    assert process_metrics.start_time(tmp_path) == 1000 + 22 / os.sysconf("SC_CLK_TCK")


def test_without_proc_only_cpu_is_reported(tmp_path: Path) -> None:
    assert set(scrape(tmp_path)) == {"process_cpu_seconds_total"}
