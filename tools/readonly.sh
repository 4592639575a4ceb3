#!/usr/bin/env bash
# Run a command where nothing can be written but one temporary folder, which is gone afterwards:
#
#     tools/readonly.sh .venv/bin/pytest
#
# So a test that writes to the machine fails itself, and not another one that finds there what it did not expect.
set -euo pipefail

if [[ $# -eq 0 ]]; then
  echo "usage: $0 COMMAND [ARGUMENT]..." >&2
  exit 2
fi
if [[ $EUID -ne 0 ]]; then
  echo "cannot make everything read-only: only root may mount; run it with sudo" >&2
  exit 2
fi

if [[ -z ${READONLY_FOLDER-} ]]; then
  READONLY_FOLDER=$(mktemp --directory --tmpdir ro.XXXXXX) # short: the path of a socket has 107 bytes
  export READONLY_FOLDER
  trap 'rm -rf "$READONLY_FOLDER"' EXIT
  status=0
  unshare --mount --propagation private "$0" "$@" || status=$?
  exit "$status"
fi

# From here on in mounts of our own. /proc and /sys are no storage, and programs talk to the kernel there.
mount --bind "$READONLY_FOLDER" "$READONLY_FOLDER"
while IFS= read -r place; do
  printf -v place %b "$place" # a space is written \x20
  case $place in
    /proc | /proc/* | /sys | /sys/* | "$READONLY_FOLDER") ;;
    *) mount --options remount,bind,ro "$place" ;;
  esac
done < <(findmnt --raw --noheadings --output TARGET)

# Tests that act as somebody else must reach their files, as in /tmp.
chmod 0755 "$READONLY_FOLDER"
export TMPDIR=$READONLY_FOLDER/tmp
mkdir --mode 1777 "$TMPDIR"
# What Python, pytest and hypothesis keep for the next time, otherwise beside the sources.
export PYTHONPYCACHEPREFIX=$READONLY_FOLDER/pycache HYPOTHESIS_STORAGE_DIRECTORY=$READONLY_FOLDER/hypothesis
export PYTEST_ADDOPTS="${PYTEST_ADDOPTS-} --override-ini=cache_dir=$READONLY_FOLDER/pytest"
unset READONLY_FOLDER
exec "$@"
