"""The agent, with a Lease that is shorter than it is in use: SECONDS is the first argument.

python -m support.quick_agent 20 agent --root ...
"""

from __future__ import annotations

import sys

from nodemanager.agent.report import heartbeat
from nodemanager.cli import main

if __name__ == "__main__":
    ratio = heartbeat.INTERVAL / heartbeat.DURATION
    seconds = int(sys.argv[1])
    heartbeat.DURATION = seconds  # type: ignore[misc]
    heartbeat.INTERVAL = seconds * ratio  # type: ignore[misc]
    main.main(sys.argv[2:])
