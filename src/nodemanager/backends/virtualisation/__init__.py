"""The virtualisation of a site. It is only read, never changed."""
