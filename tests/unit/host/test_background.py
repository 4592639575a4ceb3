"""When the agent goes into the background, and what it is called there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from nodemanager.host.process import background


@pytest.mark.parametrize("told", ["", "x", "-1", "9" * 40, "4194305"])
def test_nobody_waits_for_us_but_a_script_that_is_there(told: str) -> None:
    assert not background.is_expected({"RC_PID": told})
    assert not background.is_expected({})


def test_a_script_of_our_session_waits_and_one_of_another_does_not() -> None:
    assert background.is_expected({"RC_PID": str(os.getppid())}) == (os.getsid(os.getppid()) == os.getsid(0))
    assert background.is_expected({"RC_PID": str(os.getpid())})
    ask = (
        "import sys; from nodemanager.host.process import background;"
        "print(background.is_expected({'RC_PID': sys.argv[1]}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask, str(os.getpid())], capture_output=True, text=True, check=True,
        start_new_session=True,
    )  # fmt: skip
    assert done.stdout == "False\n"
