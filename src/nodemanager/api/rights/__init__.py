"""What hosts, the operator and people may do, as plain objects ready to be applied."""
