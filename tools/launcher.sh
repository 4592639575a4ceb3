#!/bin/sh
# What follows these lines is a zip archive that Python @PYTHON@ unpacks once and runs.
# Root unpacks where nobody else can have put something before; -I keeps PYTHONPATH and the like out.
case "${1-}" in  # an agent that is told to look again before it can listen must not end
    ""|-*|agent) trap "" HUP ;;
esac
if [ "$(id -u)" = 0 ]; then
    export SHIV_ROOT=/var/cache/nodemanager
fi
if command -v python@PYTHON@ >/dev/null; then
    exec python@PYTHON@ -I "$0" "$@"
fi
if python3 -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "@PYTHON@")' 2>/dev/null; then
    exec python3 -I "$0" "$@"
fi
echo "error: cannot run: this build of nodemanager needs Python @PYTHON@; install it, or build for yours: make build" >&2
exit 1
