"""``make soak``: every fault at a random moment, over many short runs through the real commands.

SOAK_RUNS (default 300) saved runs or SOAK_MINUTES (default 30), whichever comes first, from SOAK_SEED (default 1: the
same choices; moments depend on the machine). After each fault the three things are checked that tests/support/faults.py
states; what fails is told at once, with the lab rebuilt, and makes the exit status 1. With --write the figures go into
docs/reliability.md.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from labconsole.lab import commands as lab  # noqa: E402
from labconsole.lab.spec import LabSpec  # noqa: E402
from labconsole.wire.version import __version__  # noqa: E402
from support import faults  # noqa: E402

DOCUMENT = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- soak: begin -->\n", "<!-- soak: end -->\n"
PHASES = ("preparing", "arming", "sending", "draining", "counting", "saved")
PLATFORMS = ("raw", "raw-bridge", "container")
REPETITIONS = 2
DURATIONS_S = (0.3, 0.5)


@dataclass
class Tally:
    """What came of one kind of fault."""

    struck: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    runs: int = 0
    invalid: int = 0
    lossy: int = 0
    longest_gone_s: float = 0.0
    failures: list[str] = field(default_factory=list)

    def add(self, outcome: faults.Outcome) -> None:
        self.statuses[outcome.status] += 1
        self.runs += outcome.runs
        self.invalid += outcome.invalid
        self.lossy += outcome.lossy
        self.longest_gone_s = max(self.longest_gone_s, outcome.gone_s)


class Soak:
    """The labs, the dice and the figures."""

    def __init__(self, seed: int, kinds: tuple[faults.Fault, ...]) -> None:
        self.tallies = {fault.name: Tally() for fault in kinds}
        self._kinds, self._dice = kinds, random.Random(seed)
        self._labs: dict[str, lab.LabStatus] = {}
        self._left: list[faults.Fault] = []

    @property
    def runs(self) -> int:
        return sum(tally.runs for tally in self.tallies.values())

    def one(self) -> None:
        """One console, one fault, at one moment. Kinds come in shuffled rounds, so that each has its share."""
        if not self._left:
            self._left = self._dice.sample(self._kinds, len(self._kinds))
        fault = self._left.pop()
        choice: dict[str, Any] = {
            "phase": self._dice.choice(PHASES),
            "times": self._dice.randint(1, 2 * REPETITIONS),
            "after_s": round(self._dice.random() * 0.5, 3),
        }
        shape: dict[str, Any] = {"platform": self._dice.choice(PLATFORMS), "duration_s": self._dice.choice(DURATIONS_S)}
        tally = self.tallies[fault.name]
        tally.struck += 1
        began = time.monotonic()
        word = "ok"
        with tempfile.TemporaryDirectory() as directory:
            bench = faults.Bench(self._lab(fault.ssh_server), Path(directory), repetitions=REPETITIONS, **shape)
            try:
                tally.add(faults.survive(bench, fault, **choice))
            except Exception as exc:
                word = f"FAILED: {type(exc).__name__}: {exc}"
                tally.failures.append(f"{fault.name} {choice} {shape}: {word}")
                self._rebuild(fault.ssh_server)
        took_s = time.monotonic() - began
        print(f"{self.runs:5d} runs  {fault.name} {choice} {shape}: {word} ({took_s:.1f} s)", flush=True)

    def _lab(self, ssh_server: faults.SshServer) -> lab.LabStatus:
        if ssh_server not in self._labs:
            name = f"soak{os.getpid()}{ssh_server[0]}"
            self._labs[ssh_server] = lab.up(LabSpec(name=name, sources=1, ssh_server=ssh_server))
        return self._labs[ssh_server]

    def _rebuild(self, ssh_server: str) -> None:
        lab.down(self._labs.pop(ssh_server).spec.name)

    def close(self) -> None:
        for ssh_server in list(self._labs):
            self._rebuild(ssh_server)

    def table(self, *, seed: int, took_s: float) -> str:
        """The figures as the document shows them."""
        tallies = self.tallies.values()
        struck, failed = sum(t.struck for t in tallies), sum(len(t.failures) for t in tallies)
        day = datetime.datetime.now(datetime.UTC).date()
        load = os.getloadavg()[2]
        lines = [
            f"{day}, labconsole {__version__}, kernel {platform.release()}, Python {platform.python_version()}, "
            f"{os.cpu_count()} CPUs shared with other work (load average {load:.0f}), seed {seed}: {struck} faults in "
            f"{took_s / 60:.0f} min, {self.runs} runs saved, "
            f"{sum(t.invalid for t in tallies)} of them invalid and redone, "
            f"{sum(t.lossy for t in tallies)} counted runs with a loss (the lab drops nothing by itself), "
            f"**{failed} failures** of the three checks.",
            "",
            "| fault | struck | exit status: times | runs saved | invalid "
            "| longest until nothing was left | failures |",
            "|---|---|---|---|---|---|---|",
        ]
        for name, t in self.tallies.items():
            statuses = ", ".join(f"{status}: {count}" for status, count in sorted(t.statuses.items()))
            gone = f"{t.longest_gone_s:.1f} s" if t.statuses else ""
            lines.append(f"| {name} | {t.struck} | {statuses} | {t.runs} | {t.invalid} | {gone} | {len(t.failures)} |")
        return "\n".join([*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the figures into docs/reliability.md")
    parser.add_argument("--only", default="", help="only faults whose name holds this")
    options = parser.parse_args()
    runs, minutes = int(os.environ.get("SOAK_RUNS", "300")), float(os.environ.get("SOAK_MINUTES", "30"))
    seed = int(os.environ.get("SOAK_SEED", "1"))
    kinds = tuple(f for f in faults.FAULTS if options.only in f.name and (os.geteuid() == 0 or not f.root))
    soak, began = Soak(seed, kinds), time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        for variable in ("XDG_STATE_HOME", "XDG_DATA_HOME"):
            os.environ[variable] = home
        try:
            while soak.runs < runs and time.monotonic() - began < minutes * 60:
                soak.one()
        finally:
            soak.close()
            table = soak.table(seed=seed, took_s=time.monotonic() - began)
            print(table)
            if options.write:
                text = DOCUMENT.read_text()
                head, _, rest = text.partition(BEGIN)
                DOCUMENT.write_text(head + BEGIN + table + END + rest.partition(END)[2])
    failures = [failure for tally in soak.tallies.values() for failure in tally.failures]
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
