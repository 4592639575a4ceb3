"""The storage of a site: `seam.py` is the interface of a backend; each backend has a module of its own."""
