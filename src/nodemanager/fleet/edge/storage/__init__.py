"""What is seen of the storage of a site, whatever keeps it, and whether that is well. Pure."""
