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
commit=$(git -C "$root" rev-parse HEAD)
for target in "$@"; do
  for file in "$root"/dist/nodemanager-*-"$target"; do
    [[ -f $file ]] || { echo "cannot build again: dist/ has no program for $target: make release TARGETS=$target" >&2; exit 1; }
    # As `tools/release/revision.py` packs it; -m 1 is about lines, and a program has few.
    of=$(LC_ALL=C grep -aom 1 -E 'nodemanager-revision [0-9a-f]{40,64}' "$file" || echo "? unknown")
    [[ ${of#* } == "$commit" ]] || {
      echo "cannot build again: ${file##*/} is of commit ${of#* }, and this is $commit: make release TARGETS=$target" >&2
      exit 1
    }
  done
done
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
