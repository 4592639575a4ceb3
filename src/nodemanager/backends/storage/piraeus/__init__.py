"""Piraeus: what its operator says of a LINSTOR cluster in the Kubernetes API. Nothing of it is written."""
