"""The storage of a site as it was seen, for any backend, and whether it is well. Pure."""
