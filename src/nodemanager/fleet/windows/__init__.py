"""When maintenance may happen: windows as spans of time, correct through all changes of the clock."""
