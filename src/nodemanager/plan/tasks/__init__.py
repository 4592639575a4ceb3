"""The decision about one task on one host: whether it is taken, and its next step. Pure."""
