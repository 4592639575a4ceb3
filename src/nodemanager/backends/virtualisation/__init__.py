"""What runs virtual machines at a site. It is looked at, and nothing of it is written."""
