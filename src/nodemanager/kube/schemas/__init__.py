"""Structural schemas: made from our types, checked, and applied to objects.

`derivation` writes the schema of a type, `checks` says whether a schema can be served, `structural`
compiles it. An object then goes through `pruning`, `defaulting` and `validation`.
"""
