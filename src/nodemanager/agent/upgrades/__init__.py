"""Upgrades of this host: when, one of a group at a time, drained, rebooted, proven."""
