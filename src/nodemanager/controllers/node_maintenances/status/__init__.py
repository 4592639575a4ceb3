"""The status of a maintenance, its conditions and notices, and the writer of them."""
