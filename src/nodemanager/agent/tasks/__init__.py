"""Work that the operator orders once: taken, written down, done, reported; never done twice."""
