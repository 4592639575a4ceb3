"""Other programs, and the process that we are. `runner` is the one door to subprocess."""
