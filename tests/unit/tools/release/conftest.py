"""Makes `tools` importable, which is no part of what is installed."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[4]))
