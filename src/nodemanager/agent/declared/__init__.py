"""The wanted state of this host: from the API, from memory or from a folder; calculated once."""
