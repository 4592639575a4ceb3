"""What proposed ConfigSets would do to a fleet: what is proposed, who is asked, and what the answers say."""
