"""A thin read-mostly web page over the client."""
