"""One small file per command: parse, call, print. A room for each audience, and for groups of commands."""
