"""A maintenance on a virtual clock: the same decisions as the operator's, on pretended hosts. Pure."""
