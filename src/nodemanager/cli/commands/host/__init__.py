"""Commands for who sits at a host: what is there, what would change, and doing it by hand."""
