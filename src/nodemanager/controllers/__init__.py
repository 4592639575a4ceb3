"""What the operator decides, one module per kind. Never touches a host."""
