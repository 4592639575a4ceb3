"""The embedded API as we use it: what it begins with, how much hosts may keep there, its numbers."""
