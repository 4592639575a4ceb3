"""Commands that run until somebody stops them: the agent, the operator, the embedded API, and all in one."""
