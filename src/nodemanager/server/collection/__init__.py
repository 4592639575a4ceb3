"""Objects that are removed after another one: their owner, their namespace, or their definition."""
