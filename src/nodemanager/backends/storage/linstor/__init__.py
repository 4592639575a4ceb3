"""LINSTOR over its REST interface: its reports about DRBD, and changes of one resource at a time."""
