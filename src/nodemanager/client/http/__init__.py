"""The connection to a server: sockets, proxies, TLS, and a pool."""
