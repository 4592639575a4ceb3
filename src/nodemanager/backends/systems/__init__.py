"""Operating systems of nodes: what has to be written and run there for something to last. Pure.

Nothing here acts: who calls writes the files and runs the commands, on the host, by the agent's own means.
"""
