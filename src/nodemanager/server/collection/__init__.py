"""Objects that go because something else went: their owner, their namespace, or their definition."""
