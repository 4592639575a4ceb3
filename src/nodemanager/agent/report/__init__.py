"""What the agent tells: the status of its ManagedNode, Events, metrics, and who asks on the host itself."""
