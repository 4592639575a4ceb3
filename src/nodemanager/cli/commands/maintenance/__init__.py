"""Commands about maintenance."""
