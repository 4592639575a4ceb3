#!/usr/bin/env bash
# Builds a release once more, from nothing and in another folder, and compares it with what is in dist/: the same
# commit gives the same bytes. Of what was built before it takes the archives of sources only, which digests pin.
#
#   tools/release/again.sh TARGET...
set -euo pipefail
(($#)) || { echo "cannot build again: name targets, say linux-amd64" >&2; exit 2; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
kept=${XDG_CACHE_HOME:-$HOME/.cache}/nodemanager-release/archives
changed=$(git -C "$root" status --porcelain)
[[ -z $changed ]] || { echo "cannot build again: what is not committed would be missing: $changed" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git clone --quiet --no-local "$root" "$folder/sources"
mkdir -p "$folder/cache/archives"
[[ ! -d $kept ]] || cp -r "$kept/." "$folder/cache/archives/"
make -C "$folder/sources" release TARGETS="$*" SIGNING_KEY= ARGS="--cache $folder/cache"
different=()
for file in "$folder"/sources/dist/*; do
  name=${file##*/}
  case $name in
    SHA256SUMS | *.cdx.json) continue ;; # they list what earlier runs made in the same folder, too
  esac
  cmp "$file" "$root/dist/$name" || different+=("$name")
done
[[ ${#different[@]} -eq 0 ]] || { echo "these are not the same bytes: ${different[*]}" >&2; exit 1; }
echo "the same bytes: $*"
