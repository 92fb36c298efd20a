"""The real ``labconsole replay``, held between two trials while the lab is changed and its drop counters are read.

The console is stopped (SIGSTOP) as soon as it has printed a run, within the plan's pause after a trial, and goes on when
the next run is asked for. So loss can be put inside a guest, which lives as long as the batch, and no trial runs while a
counter is read. Agents give up a silent console after ten seconds; what is done here takes a tenth of one.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from support.live_lab import COMMAND

SETTLE_S = 0.4
HANGS_S = 300.0

HEAD = """\
plan: validation
order: as-listed
duration_s: {duration_s}
repetitions: {repetitions}
settle_s: {settle_s}
drain_s: 0.2
max_redo: 0
generator: afpacket
points:
"""


def plan_text(points: list[dict[str, Any]], *, repetitions: int, duration_s: float) -> str:
    """A plan whose trials come in passes: every point once, in this order, then all of them again."""
    head = HEAD.format(duration_s=duration_s, repetitions=repetitions, settle_s=SETTLE_S)
    return head + "".join(f"  - {json.dumps(point)}\n" for point in points)


@contextmanager
def replaying(plan: str, hosts: Path, directory: Path) -> Iterator[Iterator[dict[str, Any]]]:
    """The runs of a plan, one by one, each while the console is stopped. Raises RuntimeError when it ends badly."""
    path = directory / "plan.yaml"
    path.write_text(plan)
    argv = [*COMMAND, "replay", str(path), "--hosts", str(hosts), "--store", str(directory / "runs.sqlite"), "--json"]
    with (directory / "stderr").open("w+") as errors:
        console = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=errors, text=True)
        watchdog = threading.Timer(HANGS_S, console.kill)
        watchdog.start()
        complete = False
        try:
            with suppress(StopIteration):  # a run was asked for that did not come: told below
                yield _runs(console)
                complete = True
            console.send_signal(signal.SIGCONT)
            console.communicate()
            if console.returncode not in (0, 1) or not complete:
                raise RuntimeError(f"replay ended with {console.returncode}: {(directory / 'stderr').read_text()}")
        finally:
            watchdog.cancel()
            if console.poll() is None:
                console.kill()
                console.communicate()


def _runs(console: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert console.stdout is not None
    for line in console.stdout:
        if not line.startswith('{"event": "trial_finished"'):
            continue
        console.send_signal(signal.SIGSTOP)
        yield json.loads(line)["run"]
        console.send_signal(signal.SIGCONT)
