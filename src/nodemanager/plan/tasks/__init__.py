"""The decision about one task on one host, pure: whether it is taken, and what is done next."""
