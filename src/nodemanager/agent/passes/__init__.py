"""A pass over the host: everything that is declared is looked at and repaired; with its consequences."""
