"""Other programs, and our own process. Only `runner` starts programs."""
