"""A pass over the host: everything that is declared, looked at and made so, and what it leads to."""
