"""What agents report about the hosts of a site in `status.edge`: how fresh it is, and what follows. Pure."""
