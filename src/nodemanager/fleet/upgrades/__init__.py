"""Upgrades that ManagedNode.spec.upgrade orders: what an upgrade is, who begins it, and which host is next.

Pure.
"""
