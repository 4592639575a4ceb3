"""What the operator decides, one package per controller. Never touches a host.

`registration` says what a controller is, `assembly` has the list of them and builds the operator from it.
"""
