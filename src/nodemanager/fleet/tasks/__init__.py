"""What the operator decides about tasks that it made: when they are over, and how long they are kept."""
