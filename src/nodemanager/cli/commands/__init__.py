"""One small file per command: parse, call, print."""
