"""The socket that the server listens on, or an error that says why there is none."""

from __future__ import annotations

import errno
import socket
from typing import Final

from nodemanager.kube import errors

_ELSE: Final = "choose another --bind-address"
_REMEDIES: Final = {
    errno.EADDRINUSE: f"stop what listens there, or {_ELSE}; port 0 takes a free one",
    errno.EADDRNOTAVAIL: f"this host does not have that address; {_ELSE}",
    errno.EACCES: "run it as root, or choose a port from 1024 with --bind-address",
}


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raise ConfigError with what to do where that is not possible."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        return socket.create_server(found[0][4], family=family, backlog=128)
    except UnicodeError as error:
        raise _refused(host, port, "no host can have that name", _ELSE) from error
    except socket.gaierror as error:
        remedy = "give an address of this host as --bind-address"
        raise _refused(host, port, error.strerror or str(error), remedy) from error
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (while")[0]  # Python adds the address once more
        raise _refused(host, port, why, _REMEDIES.get(error.errno or 0, _ELSE)) from error


def _refused(host: str, port: int, why: str, remedy: str) -> errors.ConfigError:
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return errors.ConfigError(f"cannot listen on {shown}: {why}; {remedy}")
