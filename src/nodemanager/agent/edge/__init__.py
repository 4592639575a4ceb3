"""What the agent does on hosts of edge sites only; imported only where it is told so."""
