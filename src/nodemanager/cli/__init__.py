"""The composition root: settings are read here once, commands are one small file each."""
