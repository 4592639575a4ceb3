"""What keeps the volumes of a site: `seam.py` is what is asked of a backend; each has a module of its own."""
