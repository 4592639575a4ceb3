"""Operating systems of nodes: what has to be written and run there for a lasting change. Pure.

These modules do not act: the caller writes the files and runs the commands on the host, by the agent's means.
"""
