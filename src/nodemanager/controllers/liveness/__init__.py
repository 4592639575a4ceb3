"""Who is alive: tells silent hosts from live ones, and says so on their ManagedNodes."""
