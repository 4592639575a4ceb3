"""What proposed ConfigSets would do to a fleet: the proposal, the hosts that are asked, and their answers."""
