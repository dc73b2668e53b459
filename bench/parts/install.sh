#!/usr/bin/env bash
# Installs the real parts into a virtual environment: install.sh DIR. Does nothing when they are there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
stamp="$1/parts-$(cat "$here"/requirements*.txt | sha256sum | cut -c1-12)"
[ -e "$stamp" ] && exit 0
python3 -m venv "$1"
"$1/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$here/requirements.txt"
"$1/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements-deps.txt"
touch "$stamp"
