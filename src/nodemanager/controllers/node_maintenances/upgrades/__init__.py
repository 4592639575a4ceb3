"""Upgrades that hosts ask for: marks, turns, and the Leases of groups."""
