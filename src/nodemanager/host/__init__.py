"""The only code that touches a machine. Only `runner` starts other programs."""
