"""The part of a request that is not about objects: sockets, TLS, limits, routes, bodies, answers."""
