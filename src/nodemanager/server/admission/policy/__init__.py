"""What an admission policy and its bindings may say, and what they are asked with."""
