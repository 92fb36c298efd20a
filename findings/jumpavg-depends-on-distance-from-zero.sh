#!/usr/bin/env bash
# jumpavg 0.4.2 (Python, of FD.io CSIT): whether a step is found depends on how far the values lie from zero.
#
# Behaviour: `classify` cuts a series into groups by the bits that tell it. Those bits count the values themselves. Of 24
# values that scatter by 5 and rise by 20 in the middle, the step is found while they lie around 100, 1 000 or 11 000; the
# same series with a million added is one group. And where values are equal, as held rates and counts are, a single one that
# is 1 % lower is a group of its own, with two changes. Nothing in the result says how rare either is by chance.
#
# Output seen:
#     around 100: 12 12
#     around 1000: 12 12
#     around 11000: 12 12
#     around 1001000: 24
#     one of thirteen equal ones is 1 % lower: 6 1 6
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check jumpavg==0.4.2

cat > "$folder/cut.py" <<'PYTHON'
import random
import sys

from jumpavg import classify


def sizes(values):
    return [len(group.run_list) for group in classify([float(value) for value in values])]


draw = random.Random(3)
for _ in range(12):
    draw.gauss(0, 1)
scatter = [draw.gauss(0, 5) for _ in range(24)]
found = []
for middle in (100, 1000, 11_000, 1_001_000):
    found.append(sizes([middle + 20 * (place >= 12) + each for place, each in enumerate(scatter)]))
    print(f"around {middle}:", *found[-1])
lower = sizes([100] * 6 + [99] + [100] * 6)
print("one of thirteen equal ones is 1 % lower:", *lower)
if found != [[12, 12]] * 3 + [[24]] or lower != [6, 1, 6]:
    sys.exit("it is no longer as described")
PYTHON
"$folder/venv/bin/python" "$folder/cut.py"
