"""Tells what somebody else may have changed on a host, as soon as it happens; looks at nothing itself.

    inotify, D-Bus, netlink --> Inbox (coalesced, bounded) --> Touched

A watch may say too much, never too little: whoever is told looks for themselves.
"""
