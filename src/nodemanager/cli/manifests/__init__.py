"""Manifests in place of an API: which files hold them, what they declare, and what was checked before."""
