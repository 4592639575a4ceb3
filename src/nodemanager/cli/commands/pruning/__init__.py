"""Commands about what ConfigSets leave behind."""
