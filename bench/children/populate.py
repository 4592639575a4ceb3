"""Fills one server with ManagedNodes that have a status.

python -m bench.children.populate COUNT KUBECONFIG
"""

from __future__ import annotations

import sys

from bench.children.requests import Side
from bench.children.wire import Target

if __name__ == "__main__":
    Side(Target(sys.argv[2])).populate(int(sys.argv[1]))
    print("{}")
