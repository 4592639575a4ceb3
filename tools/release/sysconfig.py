"""`sysconfig` of the static program, which is installed nowhere; zoneinfo asks it where time zones are.

packing.py puts it in the place of Python's own.
"""

TZPATH = "/usr/share/zoneinfo:/usr/lib/zoneinfo:/usr/share/lib/zoneinfo:/etc/zoneinfo"


def get_config_var(name: str) -> str | None:
    """Return what Python was built with; there is only one thing that is asked for."""
    return TZPATH if name == "TZPATH" else None
