"""Decisions about more than one host, pure: objects and the time in, what may start now out.

The operator carries them out, `plan`, `why` and `simulate` show them, and agents use the parts about windows
and claims.
"""
