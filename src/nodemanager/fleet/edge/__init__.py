"""Decisions about edge sites: which profiles are trusted, what was observed, how the site is. Pure."""
