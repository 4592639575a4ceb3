"""Files of the host: observed, staged, installed and kept; safely, even if users can write there, too."""
