"""What the agent records about its own work: the records, and how they reach the chain of the host."""
