"""How everything is, on one screen."""
