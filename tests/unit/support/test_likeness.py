"""A kube-apiserver of another version is reported, not failed; one of ours fails as before."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nodemanager.server.kubernetes_version import VERSION, minor_version

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[3]
JUDGED = """
import pytest

@pytest.mark.apiserver
def test_of_the_judge():
    assert "a new message" == "the old message"

@pytest.mark.apiserver
def test_of_both():
    pass
"""


@pytest.fixture(name="suite")
def _suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A suite that is judged by programs which only know their version."""
    pytester.makeini("[pytest]\nmarkers = apiserver: needs a judge\n")
    pytester.makepyfile(JUDGED)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(pytester.path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))
    judge_is(pytester, "v1.99.7")
    return pytester


def judge_is(suite: pytest.Pytester, version: str) -> None:
    for name in ("kube-apiserver", "etcd"):
        program = suite.path / name
        program.write_text(f"#!/bin/sh\necho Kubernetes {version}\n")
        program.chmod(0o755)


def run(suite: pytest.Pytester, *args: str) -> pytest.RunResult:
    return suite.runpytest_subprocess("-p", "support.likeness", *args)


def test_what_another_version_does_differently_is_listed_and_does_not_fail(suite: pytest.Pytester) -> None:
    result = run(suite, "-n", "1")  # a worker process finds it, and the first process tells
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1, xfailed=1)
    result.stdout.fnmatch_lines(
        [
            "*differences to v1.99.7*",
            "*::test_of_the_judge: AssertionError: assert 'a new message' == 'the old message'",
            f"1 tests differ: the embedded API is like Kubernetes {VERSION}",
        ]
    )


def test_with_our_version_it_fails(suite: pytest.Pytester) -> None:
    judge_is(suite, f"v{minor_version(VERSION)}.0")
    result = run(suite)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.no_fnmatch_line("*differences to*")


def test_what_has_no_judge_fails_with_any_version_and_so_does_one_that_does_not_start(
    suite: pytest.Pytester,
) -> None:
    suite.makepyfile(
        test_ours="""
        import pytest

        def test_ours():
            assert False

        @pytest.fixture
        def kube():
            raise RuntimeError("kube-apiserver was not ready")

        @pytest.mark.apiserver
        def test_judged(kube):
            pass
        """
    )
    result = run(suite)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, failed=1, errors=1, xfailed=1)


def test_the_documentation_names_the_version_and_no_other() -> None:
    page = (ROOT / "docs/embedded-server.md").read_text()
    assert re.findall(r"like Kubernetes (\d+\.\d+(?:\.\d+)?)", page) == [minor_version(VERSION)]
    assert set(re.findall(r"Kubernetes v?(\d[\d.]*\d)", page)) == {minor_version(VERSION)}
