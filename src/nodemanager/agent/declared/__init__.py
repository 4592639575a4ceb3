"""What is wanted of this host: from the API, from memory, from a folder; worked out once."""
