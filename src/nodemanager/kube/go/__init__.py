"""What Kubernetes does because it is written in Go: its regular expressions, its durations, how it prints."""
