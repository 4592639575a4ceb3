"""The parts of edge sites behind small Protocols: storage, operating systems, virtualisation.

A backend says what it can do (the words are those of `api/edge/capabilities.py`) and does that, and
no other code knows its details. `fleet/edge` decides what follows from its reports; the caller decides
what it does.
"""
