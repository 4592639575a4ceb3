"""`nodemanager rollout`: one module for those that look, one for those that change something."""
