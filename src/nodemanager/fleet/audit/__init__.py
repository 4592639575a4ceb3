"""The audit log: which records follow from what is seen, how they are kept, and how to tell bent ones."""
