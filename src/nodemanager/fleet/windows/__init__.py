"""When maintenance may happen: windows as spans of time, through all changes of the clock."""
