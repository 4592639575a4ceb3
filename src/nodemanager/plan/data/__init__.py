"""Data of hosts (`.Data` in templates): which layers concern a host, what they say, what comes of it, why.

`layers` says which, `reading` what is in one, `merging` what they are together, `explaining` who won.
Operator, agent and commands decide with the same code.
"""
