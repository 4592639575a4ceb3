"""Data of hosts (`.Data` in templates): the layers that concern a host, their content, the result, and why.

`layers` selects them, `reading` reads one, `merging` combines them, `explaining` says which one won.
Operator, agent and commands decide with the same code.
"""
