"""Facts about a host: its names, users, addresses, keys, clock and tools."""
