"""Decisions about more than one host. Pure: from objects and the time follows what may start now.

The operator carries them out, `plan`, `why` and `simulate` show them, and agents use the parts about windows
and claims.
"""
