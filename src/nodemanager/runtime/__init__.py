"""Controller machinery: cache, queue, controllers, manager, leases, events, metrics.

No domain words here: the agent, the operator and the tests run on the same parts."""
