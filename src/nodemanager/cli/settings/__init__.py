"""Where settings come from: flags, environment, files. Read once."""
