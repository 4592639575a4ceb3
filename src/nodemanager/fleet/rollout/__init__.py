"""How a change of a ConfigSet is rolled out: its next step, from its status and the reports of hosts.

beginning  which revision is rolled out: a change supersedes the one before it
deciding   how far it may be: the next stage, a wait with its reason, an end, or back
"""
