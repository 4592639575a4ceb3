"""Upgrades that hosts ask for: who is marked, whose turn it is, and the Leases of groups."""
