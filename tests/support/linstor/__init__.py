"""A LINSTOR controller with its satellites and DRBD, in memory and on a real socket: see `server.py`.

It behaves as upstream's sources say that LINSTOR does, also where that is a trap. Time is the world's own:
nothing happens until a test says how much of it went by.
"""
