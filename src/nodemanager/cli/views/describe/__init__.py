"""How `describe` shows each kind, one module per kind: `descriptions.py` is the table of them. Pure."""
