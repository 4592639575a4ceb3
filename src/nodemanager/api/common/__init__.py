"""common.nodemanager: ConfigSet, ManagedNode, and which of them belong together."""
