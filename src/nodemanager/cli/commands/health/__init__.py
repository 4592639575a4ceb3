"""`nodemanager health`: how everything is, on one screen."""
