"""The audit log: which records follow from changes, how they are kept, and how to detect altered ones."""
