#!/usr/bin/env bash
# plotext 6.1.0 (Python): the ticks that it chooses by itself are not at equal distances and may miss the end of the axis.
#
# Behaviour: in a picture of 30 cells, on an x axis whose limits are set to 0 and 2, the library places four ticks, at 0.00, 0.67, 1.00 and 1.67.
# The distances are 0.67, 0.33 and 0.67, and the upper limit has no tick, although there is room for it. Labels are cut to
# the decimals that the library chose, so 2.25 on the y axis from 0 to 3 reads 2.2. Ticks that are given by the caller are
# placed as given. A reader who takes ticks for equal steps reads wrong values from the picture.
#
# Output seen (last line of the picture, then the distances):
#     0.00   0.67 1.00   1.67
#     distances: 0.67 0.33 0.67
#     with ticks of one's own: 0.0 0.5 1.0 1.5 2.0
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check plotext==6.1.0

cat > "$folder/ticks.py" <<'PYTHON'
import re
import sys

import plotext


def labels(ticks=None):
    figure = plotext.figure
    figure.clear.all()
    plotext.terminal.limit(False, False)
    figure.plot_size(30, 10)
    figure.theme("colorless")
    figure.draw(figure.signal([0, 1, 2], [1, 2, 2]))
    figure.ruler("y").lim(0, 3)
    figure.ruler("x").lim(0, 2)
    if ticks is not None:
        figure.ruler("x").ticks(ticks, [f"{tick:g}" for tick in ticks])
    picture = re.sub("\x1b\\[[0-9;]*m", "", figure.build().string()).splitlines()
    line = next(line for line in reversed(picture) if line.strip())
    print(line)
    return [float(word) for word in line.split()]


chosen = labels()
distances = [round(after - before, 2) for before, after in zip(chosen, chosen[1:])]
print("distances:", *distances)
own = labels([0, 0.5, 1, 1.5, 2])
print("with ticks of one's own:", *own)
uneven, short = max(distances) > 1.5 * min(distances), chosen[-1] < 2
if not (uneven and short and own == [0, 0.5, 1, 1.5, 2]):
    sys.exit("the ticks are no longer as described")
PYTHON
"$folder/venv/bin/python" "$folder/ticks.py"
