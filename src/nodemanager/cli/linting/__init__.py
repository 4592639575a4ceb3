"""What `nodemanager lint` does around the pure checks of `plan.lint`: it reads, renders and locates."""
