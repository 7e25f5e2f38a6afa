#!/usr/bin/env bash
# A stranger's walk: a fresh checkout in a temporary folder, the README's commands, and a kernel that is not one of ours
# (walk_blur.py). Prints a table of commands, seconds and last lines. `bash bench/walk.sh`
set -u
root="$(cd "$(dirname "$0")/.." && pwd)"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"

walk() {
  local start end
  start=$(date +%s%N)
  "$@" > out.txt 2>&1
  end=$(date +%s%N)
  printf '| `%s` | %d.%d | %s |\n' "${shown:-$*}" $(((end - start) / 1000000000)) $(((end - start) / 100000000 % 10)) \
    "$(tail -n 1 out.txt | sed 's/^ *//; s/|/\\|/g' | cut -c 1-100)"
}

echo '| command | seconds | its last line |'
echo '|---|---:|---|'
shown='git clone' walk git clone -q "$root" tidegate
cd tidegate
walk make demo
. .venv/bin/activate
cp bench/walk_blur.py blur.py
walk tidegate check blur.py
walk tidegate sync blur.py -o blur.tide
walk tidegate run blur.tide --reference blur.py
walk tidegate sync blur.py --target gfx1201 -o blur12.tide
walk tidegate explain blur.tide
walk tidegate draw blur.py -o blur.html
