#!/usr/bin/env bash
# What: pyroute2 0.9.7, the netlink library, on Python 3.11.
# Behaviour: its module of route sockets (pyroute2/netlink/rtnl/iprsocket.py) imports `mock` from unittest at its top, and its
#   processes import multiprocessing: whoever opens one netlink socket loads unittest with argparse, difflib and pprint,
#   dataclasses, pickle and multiprocessing. The classes that stand for sockets in tests are in a module that production code
#   imports, too. On a Python whose distribution leaves unittest out, the library cannot be imported at all.
# Output seen (pyroute2 0.9.7, Python 3.11, 2026-11-29):
#   loaded by IPRoute: argparse difflib multiprocessing pickle unittest.mock
#   without unittest: ModuleNotFoundError: import of unittest halted; None in sys.modules
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$work/lib" pyroute2==0.9.7 2>/dev/null ||
    python3 -m pip install --quiet --break-system-packages --no-deps --target "$work/lib" pyroute2==0.9.7
export PYTHONPATH=$work/lib
wanted="argparse difflib multiprocessing pickle unittest.mock"
loaded=$(python3 -c '
import sys
import asyncio, ctypes, json, logging, socket, subprocess, typing  # what a program of this kind has anyway
before = set(sys.modules)
from pyroute2 import IPRoute
print(*sorted((set(sys.modules) - before) & set(sys.argv[1].split())))
' "$wanted")
echo "loaded by IPRoute: $loaded"
[ "$loaded" = "$wanted" ]
said=$(python3 -c 'import sys; sys.modules["unittest"] = None; import pyroute2' 2>&1 | tail -1 || true)
echo "without unittest: $said"
grep -q "ModuleNotFoundError.*unittest" <<<"$said"
