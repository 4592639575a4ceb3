"""Commands for who has a cluster: our kinds and their objects, and letting hosts in."""
