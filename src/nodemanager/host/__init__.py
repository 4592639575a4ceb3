"""The only code that touches a machine. `runner` is the one door to subprocess."""
