"""Holds: times in which this host is not changed, who asked for them, and when they end."""
