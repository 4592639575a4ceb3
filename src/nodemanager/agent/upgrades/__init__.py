"""Upgrades of this host: the schedule, one of a group at a time, drained, rebooted, proven."""
