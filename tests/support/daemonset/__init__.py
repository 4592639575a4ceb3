"""vx-rail-node-init as the bridge sees it: a script that walks the 21 states, and what runs it as pods.

How the real DaemonSet keeps its state is our assumption (docs/edge.md): the names come from the EdgeProfile.
"""
