"""Programs for people who work on nodemanager; no part of what is installed."""
