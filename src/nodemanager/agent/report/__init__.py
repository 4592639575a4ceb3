"""What the agent reports: the status of its ManagedNode, Events, metrics, and answers on the host itself."""
