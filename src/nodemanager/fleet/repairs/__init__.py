"""Drifts whose policy is in-turn: what a turn is, and which host has it. Pure."""
