"""Who may do what: identities, RBAC, and the rights of hosts.

`identity` is the question, `rbac` the answer, `roles` compiles what it is made of; `escalation` says who
may give rights away. The modules of hosts write their roles and the policy that pins them to one name.
"""
