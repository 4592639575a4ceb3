"""Service managers of a host: systemd over D-Bus, OpenRC, rc.d; one adapter each behind `host.base`."""
