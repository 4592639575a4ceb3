"""Programs that measure themselves, each in a fresh process; nothing may be imported here."""
