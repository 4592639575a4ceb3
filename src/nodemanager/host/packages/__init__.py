"""Package managers: one module for each, with pure functions that build argv and parse output.

No adapter asks a program what it can read from a file, none asks once per package, and none
kills a package manager at work: that is what leaves hosts half installed.
"""
