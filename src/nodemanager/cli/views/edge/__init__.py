"""How things of edge sites are shown."""
