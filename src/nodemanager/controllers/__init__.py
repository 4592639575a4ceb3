"""The operator's decisions, one package per controller. They never touch a host.

`registration` says what a controller is, `assembly` has the list of them and builds the operator from it.
"""
