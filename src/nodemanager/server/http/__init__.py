"""Everything about a request that is not about objects: sockets, TLS, bounds, routes, bodies, answers."""
