"""The libraries of functions that Kubernetes adds to CEL, one module each."""
