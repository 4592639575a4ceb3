"""Holds: the time in which nothing on this host is changed, who asked for it, and when it ends."""
