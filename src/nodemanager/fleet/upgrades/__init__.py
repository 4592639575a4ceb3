"""Upgrades that ManagedNode.spec.upgrade orders: what one is, who begins it, and whose turn it is; pure."""
