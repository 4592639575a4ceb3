"""What `nodemanager apply` does, imported while the process that renders starts."""
