"""Kubernetes' own rules, pure: they know nothing of our kinds, and do no I/O."""
