"""The connection to the API: whether it answers and accepts us, and the token of the host."""
