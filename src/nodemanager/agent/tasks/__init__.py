"""What the operator has this host do once: taken, written down, done, reported; never done twice."""
