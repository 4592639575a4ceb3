"""Foreign changes: noticed, repaired, ever more slowly if they are contested, and reported once."""
