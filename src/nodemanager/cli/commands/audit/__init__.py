"""`nodemanager audit`: one module for those that look, one for those that prove something."""
