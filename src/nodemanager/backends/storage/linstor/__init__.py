"""LINSTOR over its REST interface: what it says of DRBD, and changes to one resource at a time."""
