"""The audit log: its records, and the kinds that hold them. Only the operator writes them."""
