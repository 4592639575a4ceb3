"""A program that tells what it sees of itself, and ends as it is told: `python -m support.looks END`."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path


def main() -> None:
    """Write it all to stdout as one line of JSON."""
    opened = {}
    for one in sorted(int(path.name) for path in Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):  # one was that of the folder itself
            opened[one] = os.get_inheritable(one)
    status = Path("/proc/self/status").read_text().splitlines()
    masks = [one for one in status if one.startswith(("Sig", "Umask", "Groups", "Threads"))]
    seen = {
        "argv": sys.argv,
        "orig_argv": sys.orig_argv,
        "executable": sys.executable,
        "path": sys.path,
        "environ": dict(os.environ),
        "cwd": str(Path.cwd()),
        "zone": time.tzname,
        "leads": [os.getpid() == os.getsid(0), os.getpid() == os.getpgid(0)],
        "parent": os.getppid(),
        "opened": opened,
        "masks": [one for one in masks if not one.startswith("SigQ")],
        "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
        "streams": [
            [one.encoding, one.errors, one.line_buffering, one.fileno()]
            for one in (sys.stdin, sys.stdout, sys.stderr)
        ],
        "thread": threading.current_thread() is threading.main_thread(),
        "stdin": sys.stdin.read(),
    }
    sys.stdout.write(json.dumps({"seen": seen, "chance": random.random()}) + "\n")
    sys.stdout.flush()
    if sys.argv[1] == "raise":
        raise OSError("on purpose")
    if sys.argv[1] == "wait":
        signal.pause()
    sys.exit(int(sys.argv[1]))


if __name__ == "__main__":
    main()
