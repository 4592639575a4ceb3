"""What the agent records of what it does: which records follow, and how they reach the chain of the host."""
