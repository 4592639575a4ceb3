"""The agent's own files: private, complete, and safe after a power cut."""
