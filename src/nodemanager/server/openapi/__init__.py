"""The description of the served kinds for clients: discovery and OpenAPI, in JSON and protobuf."""
