"""What a host is: its names, users, addresses, keys, clock and tools."""
