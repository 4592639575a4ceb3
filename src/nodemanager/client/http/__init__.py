"""The way to a server: connections, proxies, TLS, and the pool of them."""
