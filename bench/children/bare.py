"""Imports the modules it is told, and says what that cost: the ground on which the others stand.

python -m bench.children.bare [MODULE...]
"""

from __future__ import annotations

import sys
import time

from bench import resident

if __name__ == "__main__":
    for module in sys.argv[1:]:
        __import__(module)
    print(f'{{"kilobytes": {resident.kilobytes()}, "cpu": {time.process_time()}, "at": {time.monotonic()}}}')
