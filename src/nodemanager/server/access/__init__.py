"""Who asks, and whether they may: authentication, authorisation, tokens, reviews."""
