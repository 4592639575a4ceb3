"""Our kinds and templates in a cluster: brought there, waited for, and taken away again."""
