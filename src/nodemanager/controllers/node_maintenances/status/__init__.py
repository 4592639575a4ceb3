"""What is written into a maintenance: status, conditions, notices; and the writer of all that."""
