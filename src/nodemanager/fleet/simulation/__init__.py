"""A maintenance on a virtual clock: the same decisions as the operator's, on simulated hosts. Pure."""
