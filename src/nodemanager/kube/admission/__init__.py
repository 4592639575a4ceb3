"""Admission policies: which requests they are about (`constraints`), and what they refuse."""
