"""What somebody else changed: noticed, put back, ever more slowly where it is contested, and told once."""
