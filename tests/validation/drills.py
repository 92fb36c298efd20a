"""Live drills: an evaluation replayed on a real lab while another program takes one core for a third of its time.

One platform stands in hosts.yaml under three names, beside no second guest and beside an idle one. Whatever the report
calls different there is false: names forward nothing, and an idle neighbour is no load.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import contradictions
from support import COMMAND, labconsole
from tables import NO, YES, Deadline, Table

from labconsole import lab

PLATFORM = "uml"
"""Boots in a second, and loses under load: what a busy core takes from it shows."""

NAMES = (PLATFORM, f"{PLATFORM}-b", f"{PLATFORM}-c")
BACKGROUNDS = ("none", "idle")
SET_UPS = 5
HANGS_S = 900.0
PLAN = f"""\
plan: drill
platforms: [{", ".join(NAMES)}]
frame_sizes: [64]
targets: [max]
backgrounds: [{", ".join(BACKGROUNDS)}]
duration_s: 1
set_ups: {SET_UPS}
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
EATER = "while True: pass"
COLUMNS = ("drill", "measured", "said", "must be", "is")


def live(deadline: Deadline) -> Table:
    """The table, with what verify finds among contradictory records."""
    table = Table("14. Drills", COLUMNS)
    contradictions.row(table)
    try:
        if deadline.passed:
            raise TimeoutError("no time was left")
        _busy_third(table)
    except Exception as exc:
        table.not_done("one platform under three names", exc)
    return table


def _busy_third(table: Table) -> None:
    with _lab() as hosts:
        eaten, told = _replayed(hosts)
        report = labconsole("report", "--json", store=hosts.parent / "runs.sqlite")
        if report.returncode != 0:
            raise RuntimeError(f"labconsole report ended with {report.returncode}: {report.stderr}")
    head, *parts = map(json.loads, report.stdout.splitlines())
    claims, findings = head["claims"], [part["sentence"] for part in parts if part.get("claim")]
    rates = [
        [run["total"]["forwarding_pps"] for run in told if (run["run_id"] in eaten) == busy] for busy in (True, False)
    ]
    slow, usual = (statistics.mean(rate for rate in group if rate is not None) for group in rates)
    asked = len(NAMES) * (len(NAMES) - 1) // 2 + len(NAMES)
    shown = [
        row["smallest_effect_of_family_ratio"] for part in parts for row in part.get("rows", ()) if row.get("word")
    ]
    right = claims["different"] == 0 and not findings and claims["tested"] == asked
    table.add(
        f"{PLATFORM} under {len(NAMES)} names, with and without an idle second guest, {SET_UPS} set-ups; another program "
        f"takes one core during {len(eaten)} of {len(told)} trials",
        f"{slow:.0f} packets/s beside that program, {usual:.0f} else ({slow / usual - 1:+.0%})",
        f"{claims['tested']} claims tested, {claims['different']} different; it would have shown changes from "
        f"{min(shown, default=math.nan):.0%} to {max(shown, default=math.nan):.0%} on",
        f"{asked} tested, none different", YES if right else NO,
        failure=None if right else f"{claims}, {findings}",
    )  # fmt: skip


@contextmanager
def _lab() -> Iterator[Path]:
    """The hosts.yaml of a lab with one platform under all names, in a directory that also takes the store."""
    if shutil.which("linux.uml") is None:
        raise RuntimeError("user-mode-linux is not installed")
    name = f"valid{os.getpid()}d"
    try:
        status = lab.up(lab.LabSpec(name=name, sources=1, platforms=("raw", PLATFORM)))
        with tempfile.TemporaryDirectory() as directory:
            hosts = Path(directory) / "hosts.yaml"
            text = status.hosts_file.read_text()
            head, _, rest = text.partition(f"  {PLATFORM}: ")
            options, _, tail = rest.partition("\ndefaults:")
            hosts.write_text(head + "".join(f"  {each}: {options}\n" for each in NAMES) + f"defaults:{tail}")
            yield hosts
    finally:
        lab.down(name)


def _replayed(hosts: Path) -> tuple[set[str], list[dict[str, Any]]]:
    """All measured runs of the plan, and which of them were taken beside the other program."""
    plan = hosts.parent / "drill.yaml"
    plan.write_text(PLAN)
    argv = [
        *COMMAND,
        "replay",
        str(plan),
        "--hosts",
        str(hosts),
        "--store",
        str(hosts.parent / "runs.sqlite"),
        "--json",
    ]
    of = len(NAMES) * len(BACKGROUNDS) * SET_UPS
    told: list[dict[str, Any]] = []
    eaten: set[str] = set()
    eater: subprocess.Popen[bytes] | None = None
    with (hosts.parent / "stderr").open("w+") as errors:
        console = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=errors, text=True)
        watchdog = threading.Timer(HANGS_S, console.kill)
        watchdog.start()
        try:
            assert console.stdout is not None
            for line in console.stdout:
                event = json.loads(line)
                if event.get("event") != "trial_finished" or event["run"]["role"] != "measured":
                    continue
                told.append(event["run"])
                if eater is not None:
                    eaten.add(event["run"]["run_id"])
                if eater is None and of // 3 <= len(told) < 2 * of // 3:
                    eater = subprocess.Popen([sys.executable, "-c", EATER])
                elif eater is not None and len(told) >= 2 * of // 3:
                    eater = _ended(eater)
            console.wait()
        finally:
            watchdog.cancel()
            if eater is not None:
                _ended(eater)
            if console.poll() is None:
                console.kill()
                console.wait()
        if console.returncode not in (0, 1) or len(told) < of:
            errors.seek(0)
            raise RuntimeError(
                f"replay ended with {console.returncode} after {len(told)} of {of} trials: {errors.read()}"
            )
    return eaten, told


def _ended(eater: subprocess.Popen[bytes]) -> None:
    eater.kill()
    eater.wait()
