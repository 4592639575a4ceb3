"""What the agent does only on hosts of edge sites; imported only if an option says so."""
