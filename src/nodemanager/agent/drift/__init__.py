"""What somebody else changed: noticed, put back, fought over with patience, and told once."""
