"""How maintenances look on a terminal. Pure: typed objects and a time in, text out."""
