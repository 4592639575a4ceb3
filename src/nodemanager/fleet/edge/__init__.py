"""Decisions about edge sites: whose profiles are trusted, what was observed, how the site is. Pure."""
