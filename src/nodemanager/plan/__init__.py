"""The decision: from desired state and facts follow steps.

Pure: a plan never acts. Owns the types on both of its sides."""
