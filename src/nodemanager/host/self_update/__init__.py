"""How the program on a host is replaced by another version, and comes back if that one does not work."""
