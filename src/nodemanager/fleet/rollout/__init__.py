"""How a change of a ConfigSet is rolled out: what is done next, from what is published and what hosts report.

beginning  which revision is rolled out: a change supersedes the one before it
deciding   how far it may be: the next stage, a wait with its reason, an end, or back
"""
