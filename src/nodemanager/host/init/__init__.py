"""How a host starts the agent: a file for each init system, as data, and the code that installs it."""
