"""Piraeus: its operator's reports about a LINSTOR cluster in the Kubernetes API. They are only read."""
