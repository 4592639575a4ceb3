"""A Kubernetes-compatible HTTP API over the store."""
