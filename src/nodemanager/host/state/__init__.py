"""What the agent itself keeps on disk: private, whole, and there after a power cut."""
