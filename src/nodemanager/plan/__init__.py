"""The decision: desired state and facts in, steps out.

Pure: a plan never acts. Owns the types on both of its sides."""
