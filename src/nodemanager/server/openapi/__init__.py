"""What is served, told to clients: discovery and OpenAPI, in JSON and protobuf."""
