#!/usr/bin/env bash
# What: Debian 12's python3-minimal, which brings libpython3.11-minimal 3.11.2-6+deb12u9 as its standard library.
# Behaviour: a machine with python3-minimal alone has a working python3 3.11 with re, socket, subprocess and zipimport, but
#   `import json`, `import asyncio` and `import ctypes` fail: these are in libpython3.11-stdlib, which only python3 brings.
#   A tool that asks of a node "Python 3.9 or newer" and checks for the command python3 finds it, and then fails at its
#   first import. The interpreter's version says nothing of its library.
# Output seen (Debian 12, 2026-11-29):
#   in the minimal library: asyncio no ctypes no json no logging yes re yes socket yes subprocess yes zipimport yes
#   an interpreter with that library alone: ModuleNotFoundError: No module named 'json'
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -q libpython3.11-minimal=3.11.2-6+deb12u9 python3.11-minimal=3.11.2-6+deb12u9 >/dev/null 2>&1
for package in *.deb; do dpkg -x "$package" root; done
library=$work/root/usr/lib/python3.11
printf 'in the minimal library:'
for module in asyncio ctypes json logging re socket subprocess zipimport; do
    if [ -e "$library/$module" ] || [ -e "$library/$module.py" ]; then found=yes; else found=no; fi
    printf ' %s %s' "$module" "$found"
    case $module in asyncio | ctypes | json) wanted=no ;; *) wanted=yes ;; esac
    [ "$found" = "$wanted" ] || { echo; echo "changed: $module $found"; exit 1; }
done
echo
# -S and an own home: nothing of this machine's Python is looked at.
export PYTHONHOME=$work/root/usr
python=$work/root/usr/bin/python3.11
"$python" -S -c 'import re, socket, subprocess, zipimport'
said=$("$python" -S -c 'import json' 2>&1 | tail -1 || true)
echo "an interpreter with that library alone: $said"
[ "$said" = "ModuleNotFoundError: No module named 'json'" ]
