#!/bin/sh
# What follows these lines is a zip archive: a program for Python @PYTHON@ that is unpacked once, and run from there.
# Root unpacks where nobody else can have put something before, and what root unpacked serves all. -I and -S, also to ask
# for a version, keep out what is in the environment, in homes and in site-packages; two variables that say where the
# interpreter and its library are work all the same, and go.
unset PYTHONEXECUTABLE __PYVENV_LAUNCHER__
case "${1-}" in  # an agent that is told to look again before it can listen must not end
    ""|-*|agent) trap "" HUP ;;
esac
cache=${NODEMANAGER_CACHE:-/var/cache/nodemanager}
if [ ! -d "$cache/@DIGEST@" ] && [ -z "${NODEMANAGER_CACHE-}" ] && [ "$(id -u)" != 0 ]; then
    cache=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/nodemanager
fi
export NODEMANAGER_PROGRAM="$0" NODEMANAGER_UNPACKED="$cache/@DIGEST@"
program=$NODEMANAGER_UNPACKED/__main__.py
[ -f "$program" ] || program=$0
if [ "$cache" != /var/cache/nodemanager ]; then  # anybody may have put something there; what is not ours is looked at closely
    [ -O "$cache" ] && [ -O "$NODEMANAGER_UNPACKED" ] && [ ! -L "$NODEMANAGER_UNPACKED" ] || program=$0
fi
if command -v python@PYTHON@ >/dev/null; then
    exec python@PYTHON@ -IS "$program" "$@"
fi
if python3 -IS -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "@PYTHON@")' 2>/dev/null; then
    exec python3 -IS "$program" "$@"
fi
echo "error: cannot run: this build of nodemanager needs Python @PYTHON@; install it, or build for yours: make build" >&2
exit 1
