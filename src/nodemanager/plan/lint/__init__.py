"""Finds mistakes, certain or likely, in declarations that the API admits. Pure; for lint and operator.

`findings` is what comes of it, `config_sets` looks at one set, `folders` at many together, and `syntax` says
which templates are to be read by the process that renders, and what its answers mean.
"""
