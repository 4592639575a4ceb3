"""Files of the host: seen, staged, put in place, kept; safe beside anybody who can write there, too."""
