#!/usr/bin/env bash
# Installs the packages of packages.txt that are missing. Does nothing, and needs no rights, when all are there.
set -euo pipefail
cd "$(dirname "$0")"
missing=()
while read -r name _; do
  [[ -z "$name" || "$name" == \#* ]] && continue
  dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
done < packages.txt
if [[ ${#missing[@]} -eq 0 ]]; then
  exit 0
fi
echo "installing: ${missing[*]}"
sudo=
[[ $(id -u) -ne 0 ]] && sudo=sudo
$sudo apt-get update -qq
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
