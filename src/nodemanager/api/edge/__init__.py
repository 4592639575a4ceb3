"""Kinds of edge sites: what a site is made of, and how it is. Pure."""
