"""Live drills: an evaluation replayed on a real lab while another program takes half of both cores for a third of its time.

One platform stands in hosts.yaml under several names, beside no second guest and beside an idle one. Whatever the report
calls different among them is false: names forward nothing, and an idle neighbour is no load. Then the same for two names,
behind one of which the lab drops a known share: that the report has to find, and to tell how much.
"""

from __future__ import annotations

import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import contradictions
from scipy.stats import t as student_t
from tables import NO, YES, Deadline, Table

from labconsole.lab import commands as lab
from labconsole.lab.loss_injection import LossRule, drop_share
from labconsole.lab.spec import LabSpec
from support.live_lab import COMMAND, labconsole

PLATFORM = "container"
NAMES = (PLATFORM, f"{PLATFORM}-b", f"{PLATFORM}-c")
ROBBED = f"{PLATFORM}-robbed"
OUT = "eth5"
"""The UUT's port towards the sink, behind every platform."""

DROPPED_RATIO = 0.1
"""Behind all of them: of what loses nothing only a lower bound is known, and nothing is compared."""

ROBBED_RATIO = 0.25
"""Of the rest, behind the robbed name."""

SET_UPS = 5
HANGS_S = 900.0
PLAN = """\
plan: drill
platforms: [{names}]
frame_sizes: [64]
targets: [{target}]
backgrounds: [{backgrounds}]
duration_s: 1
set_ups: {set_ups}
repetitions: 1
seed: 7
settle_s: 0
drain_s: 0.5
warm_up: {{duration_s: 0.3}}
max_redo: 1
tolerances:
  offered_ratio: 0.5
  duration_ratio: 0.5
  start_skew_s: 0.5
  missed_samples_ratio: 1
  other_cpu_ratio: 4
  foreign_packets: 20
"""
EATER = """
import os
for cpu in os.sched_getaffinity(0):
    if os.fork() == 0:
        os.sched_setaffinity(0, {cpu})
        while True: pass
os.wait()
"""
"""A process for each core. On two of them that makes one core's worth, as each gets half of one that is wanted; a single
process would leave the other core to everything else, and with one stream nothing misses the one that it takes."""

HURT_RATIO = 0.9
WIDER = float(student_t.ppf(0.9995, SET_UPS - 1) / student_t.ppf(0.975, SET_UPS - 1))
"""From a 95 % to a 99.9 % interval: the drill is to fail for a wrong program, not in every twentieth run."""

COLUMNS = ("drill", "measured", "said", "must be", "is")


@dataclass(frozen=True)
class Drill:
    """What is replayed: one platform under these names, beside these second guests, or with a core taken."""

    name: str
    names: tuple[str, ...]
    backgrounds: tuple[str, ...]
    target: str
    eaten: bool = False

    @property
    def trials(self) -> int:
        return len(self.names) * len(self.backgrounds) * SET_UPS

    @property
    def plan(self) -> str:
        words = {"names": ", ".join(self.names), "backgrounds": ", ".join(self.backgrounds)}
        return PLAN.format(**words, target=self.target, set_ups=SET_UPS)


@dataclass(frozen=True)
class Replayed:
    """All measured runs, and which of them were taken beside the other program."""

    runs: list[dict[str, Any]]
    eaten: set[str]


def live(deadline: Deadline) -> Table:
    """The table, with what verify finds among contradictory records."""
    table = Table("14. Drills", COLUMNS)
    contradictions.row(table)
    try:
        if deadline.passed:
            raise TimeoutError("no time was left")
        with _lab() as (name, hosts):
            _robbed_name(table, name, hosts)
            _busy_third(table, name, hosts)
    except Exception as exc:
        table.not_done("one platform under several names", exc)
    return table


def _evaluated(name: str, hosts: Path, drill: Drill) -> tuple[Replayed, dict[str, Any], list[dict[str, Any]]]:
    """What was measured, what the report says of its claims, and its rows that say a word."""
    store = hosts.parent / f"{drill.name}.sqlite"
    replayed = _replayed(name, hosts, store, drill)
    report = labconsole("report", "--json", store=store)
    if report.returncode != 0:
        raise RuntimeError(f"labconsole report ended with {report.returncode}: {report.stderr}")
    head, *parts = map(json.loads, report.stdout.splitlines())
    return replayed, head["claims"], [row for part in parts for row in part.get("rows", ()) if row.get("word")]


def _busy_third(table: Table, name: str, hosts: Path) -> None:
    """Between names of one platform, and with and without an idle guest: no difference."""
    replayed, claims, rows = _evaluated(name, hosts, Drill("busy", NAMES, ("none", "idle"), "max", eaten=True))
    rates = [
        [run["total"]["forwarding_pps"] for run in replayed.runs if (run["run_id"] in replayed.eaten) == busy]
        for busy in (True, False)
    ]
    slow, usual = (statistics.mean(rate for rate in group if rate is not None) for group in rates)
    asked = len(NAMES) * (len(NAMES) - 1) // 2 + len(NAMES)
    shown = [row["smallest_effect_of_family_ratio"] for row in rows]
    hurt = slow < HURT_RATIO * usual
    right = hurt and claims["different"] == 0 and claims["tested"] == len(rows) == asked
    table.add(
        f"{PLATFORM} under {len(NAMES)} names, with and without an idle second guest, {SET_UPS} set-ups; another program "
        f"takes half of every core during {len(replayed.eaten)} of {len(replayed.runs)} trials",
        f"{slow:.0f} packets/s beside that program, {usual:.0f} else ({slow / usual - 1:+.0%})",
        f"{claims['tested']} claims tested, {claims['different']} different; it would have shown changes from "
        f"{min(shown, default=math.nan):.0%} to {max(shown, default=math.nan):.0%} on",
        f"slower by {1 - HURT_RATIO:.0%} or more; {asked} tested, none different",
        YES if right else NO,
        failure=None if right else f"{claims}, {rows}" if hurt else "that program took nothing that shows",
    )


def _robbed_name(table: Table, name: str, hosts: Path) -> None:
    """A share that is known to be missing is found: a report that never said *different* would pass the other drill."""
    _, claims, rows = _evaluated(name, hosts, Drill("robbed", (PLATFORM, ROBBED), ("none",), "20Mbit"))
    if len(rows) != 1:
        table.not_done(f"{PLATFORM} with a known share dropped behind it", f"{claims}, {rows}")
        return
    (row,) = rows
    true = -ROBBED_RATIO if row["platform"] == ROBBED else 1 / (1 - ROBBED_RATIO) - 1
    low, change, high = (row[f"change_{part}"] for part in ("ci_low_ratio", "ratio", "ci_high_ratio"))
    right = row["word"] == "different" and abs(change - true) <= WIDER * (high - low) / 2
    table.add(
        f"{PLATFORM} under two names, {ROBBED_RATIO:.0%} dropped behind {ROBBED}, {SET_UPS} set-ups: {row['platform']} "
        f"over {row['other_platform']}",
        f"{change:+.1%}, {low:+.1%} to {high:+.1%}",
        f"{row['word']}, p {row['adjusted_p']:.2g}",
        f"different; {true:+.1%} in its 99.9 % interval",
        YES if right else NO,
        failure=None if right else str(row),
    )


@contextmanager
def _lab() -> Iterator[tuple[str, Path]]:
    """Its name, and the hosts.yaml of a lab with one platform under all names, in a directory that also takes the store."""
    name = f"valid{os.getpid()}d"
    try:
        status = lab.up(LabSpec(name=name, sources=1, platforms=("raw", PLATFORM)))
        with tempfile.TemporaryDirectory() as directory:
            hosts = Path(directory) / "hosts.yaml"
            text = status.hosts_file.read_text()
            head, _, rest = text.partition(f"  {PLATFORM}: ")
            options, _, tail = rest.partition("\ndefaults:")
            hosts.write_text(head + "".join(f"  {each}: {options}\n" for each in (*NAMES, ROBBED)) + f"defaults:{tail}")
            yield name, hosts
    finally:
        lab.down(name)


def _replayed(name: str, hosts: Path, store: Path, drill: Drill) -> Replayed:
    """Replay the drill on the lab ``name``. Raises RuntimeError when a trial of it is missing at the end."""
    plan = hosts.parent / f"{drill.name}.yaml"
    plan.write_text(drill.plan)
    argv = [*COMMAND, "replay", str(plan), "--hosts", str(hosts), "--store", str(store), "--json"]
    third = range(drill.trials // 3, 2 * drill.trials // 3) if drill.eaten else range(0)
    found = Replayed([], set())
    with ExitStack() as undone, (hosts.parent / "stderr").open("w+") as errors:
        console = undone.enter_context(_watched(argv, errors))
        robber, eater = undone.enter_context(Robber(name)), undone.enter_context(Eater())
        assert console.stdout is not None
        for event in map(json.loads, console.stdout):
            if event["event"] == "trial_started" and event["warm_up"]:
                # Every set-up begins with one, in which no rate is measured.
                robber.robs(event["requested"]["platform"] == ROBBED)
            if event["event"] != "trial_finished" or event["run"]["role"] != "measured":
                continue
            found.runs.append(event["run"])
            if eater.eats:
                found.eaten.add(event["run"]["run_id"])
            eater.eat(len(found.runs) in third)
        if console.wait() not in (0, 1) or len(found.runs) < drill.trials:
            errors.seek(0)
            raise RuntimeError(
                f"replay ended with {console.returncode} after {len(found.runs)} of {drill.trials} trials: {errors.read()}"
            )
    return found


@contextmanager
def _watched(argv: list[str], errors: TextIO) -> Iterator[subprocess.Popen[str]]:
    """A command that is killed when it hangs, and when the block ends before it."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
        watchdog = threading.Timer(HANGS_S, process.kill)
        watchdog.start()
        try:
            yield process
        finally:
            watchdog.cancel()
            process.kill()


class Robber:
    """Drops known shares behind the UUT."""

    def __init__(self, lab_name: str) -> None:
        self._lab = lab_name
        self._robs = False
        self._rule = self._dropping(DROPPED_RATIO)

    def robs(self, wanted: bool) -> None:
        """Drop the robbed name's share as well, or no longer."""
        if wanted != self._robs:
            self._rule.remove()
            self._rule = self._dropping(1 - (1 - DROPPED_RATIO) * (1 - ROBBED_RATIO) if wanted else DROPPED_RATIO)
            self._robs = wanted

    def _dropping(self, ratio: float) -> LossRule:
        return drop_share(self._lab, "uut", OUT, "egress", ratio)

    def __enter__(self) -> Robber:
        return self

    def __exit__(self, *_: object) -> None:
        self._rule.remove()


class Eater:
    """The program that takes half of every core while it is asked to."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def eats(self) -> bool:
        return self._process is not None

    def eat(self, wanted: bool) -> None:
        """Begin or end."""
        if wanted and self._process is None:
            self._process = subprocess.Popen([sys.executable, "-c", EATER], start_new_session=True)
        elif not wanted and self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def __enter__(self) -> Eater:
        return self

    def __exit__(self, *_: object) -> None:
        self.eat(False)
