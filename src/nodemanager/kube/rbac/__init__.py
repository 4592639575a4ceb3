"""Permissions as pure functions.

`identity` is the question, `rules` the answer, `roles` compiles what it is made of; `escalation` says who
may give rights away.
"""
