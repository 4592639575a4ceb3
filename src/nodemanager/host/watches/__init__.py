"""Reports possible changes on a host as soon as they happen; it looks at no resource itself.

    inotify, D-Bus, netlink --> Inbox (coalesced, bounded) --> Touched

A watch may report too much, never too little: the receiver of a report looks itself.
"""
