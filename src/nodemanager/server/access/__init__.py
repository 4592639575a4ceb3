"""The user of a request and their permission: authentication, authorisation, tokens, reviews."""
