"""Runs in a guest: does what the test says through a port that has nothing to do with any network.

A line is a JSON object each way: {"id", "argv", "stdin", "env", "timeout"}, or {"id", "path", "data",
"mode"} to append to a file, and {"id", "code", "stdout", "stderr"}. Bytes are in base64. Commands run
beside one another.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

PORT = Path("/dev/virtio-ports/lab")
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
    "LC_ALL": "C.UTF-8",
    "HOME": "/root",
}
NOT_FOUND, TIMED_OUT = 127, 124


def run(asked: dict[str, Any]) -> dict[str, Any]:
    """Run a command to its end."""
    try:
        done = subprocess.run(
            asked["argv"], input=base64.b64decode(asked["stdin"]), capture_output=True, check=False,
            env={**ENVIRONMENT, **asked["env"]}, timeout=asked["timeout"],
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        return {"code": TIMED_OUT, "stdout": error.stdout or b"", "stderr": b"it did not end in time"}
    except OSError as error:
        return {"code": NOT_FOUND, "stdout": b"", "stderr": str(error).encode()}
    return {"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


def append(asked: dict[str, Any]) -> dict[str, Any]:
    """Add to a file, which is made with the folders above it."""
    path = Path(asked["path"])
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(base64.b64decode(asked["data"]))
        os.fchmod(file.fileno(), asked["mode"])
    return {"code": 0, "stdout": b"", "stderr": b""}


def main() -> None:
    """Serve until the guest is switched off."""
    while not PORT.exists():
        time.sleep(0.05)
    port = os.open(PORT, os.O_RDWR)
    lock = threading.Lock()

    def answer(asked: dict[str, Any]) -> None:
        said = append(asked) if "path" in asked else run(asked)
        words = {key: base64.b64encode(value).decode() for key, value in said.items() if key != "code"}
        line = json.dumps({"id": asked["id"], "code": said["code"], **words}).encode() + b"\n"
        with lock:
            while line:
                line = line[os.write(port, line) :]

    rest = b""
    while True:
        data = os.read(port, 65536)
        if not data:  # nobody holds the other end
            time.sleep(0.05)
            continue
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            threading.Thread(target=answer, args=(json.loads(line),), daemon=True).start()


if __name__ == "__main__":
    main()
