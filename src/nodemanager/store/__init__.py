"""Revisioned objects and their watches, for the embedded server only."""
