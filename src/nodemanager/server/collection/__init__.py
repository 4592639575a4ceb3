"""What goes because something else went: owners, namespaces, definitions."""
