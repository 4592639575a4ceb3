"""What sites are made of, behind small Protocols: storage, operating systems, virtualisation.

A backend says what it can do (the words are those of `api/edge/capabilities.py`) and does that, and
nothing else is known of it. What follows from what it sees is decided in `fleet/edge`; what it does is
decided by who calls it.
"""
