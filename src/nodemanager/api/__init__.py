"""Typed resources and the rules that hold for them.

Pure: no clock, no environment, no I/O. Used by every other package."""
