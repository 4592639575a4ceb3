"""Hosts with a kernel of their own: QEMU guests, the cables between them, and a way to talk to them."""
