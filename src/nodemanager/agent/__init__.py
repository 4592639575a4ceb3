"""Observes, plans, applies and reports on the one host that it runs on."""
