"""What the commands about maintenances share: reading objects, asking the decision, following a run."""
