"""The functions of Go templates: gomplate's as far as they are pure, Go's own where they need a limit."""
