"""How our programs end."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from typing import Final, NoReturn

EXIT_UNSAID: Final = 120
"""Where the last words could not be written, as Python has it."""


def leave(run: Callable[[], object]) -> NoReturn:
    """Run the program, and end as Python does, but without taking apart what the kernel takes back anyway.

    That is a tenth of what a short command takes. Threads are waited for, what was registered for the end is
    done, and all output is written; Python handles an uncaught error as usual.
    """
    code = 0
    try:
        run()
    except SystemExit as error:
        if error.code is not None and not isinstance(error.code, int):
            raise
        code = error.code or 0
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - what Python itself calls then
    atexit._run_exitfuncs()  # noqa: SLF001
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            code = EXIT_UNSAID
    os._exit(code & 0xFF)
