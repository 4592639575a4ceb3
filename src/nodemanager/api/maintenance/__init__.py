"""The kinds of the group maintenance.nodemanager: when, where and what is done to hosts."""
