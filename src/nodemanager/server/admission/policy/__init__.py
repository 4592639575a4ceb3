"""What an admission policy and its bindings may contain, and their inputs."""
