"""Builds the program for hosts that have no Python: one static file per target, see docs/releasing.md."""
