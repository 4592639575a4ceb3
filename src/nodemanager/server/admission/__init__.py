"""Admission policies, enforced."""
