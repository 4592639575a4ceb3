"""`nodemanager edge`: profiles of sites, their signatures, and the rights to observe what they name."""
