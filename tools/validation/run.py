"""``make validate``: what labconsole reports, compared with what the lab knows, as docs/validation.md and its CSV files.

It brings up labs of its own, runs the real commands on them and takes the truth from what was made to drop, to limit or
to break. Exit status 1 when a row is not as it must be or could not be measured; the row is in the table's file all the same, with the reason.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import another_kernel  # noqa: E402
import breaking  # noqa: E402
import commanded  # noqa: E402
import document  # noqa: E402
import drills  # noqa: E402
import flows  # noqa: E402
import fuzzing  # noqa: E402
import gates  # noqa: E402
import guest_contradictions  # noqa: E402
import guests  # noqa: E402
import instrument  # noqa: E402
import intervals  # noqa: E402
import loss  # noqa: E402
import lossy  # noqa: E402
import maxima  # noqa: E402
import null_evaluation  # noqa: E402
import one_set_up  # noqa: E402
import powers  # noqa: E402
import references  # noqa: E402
import routers  # noqa: E402
import set_up_means  # noqa: E402
import shares  # noqa: E402
import simulating  # noqa: E402
import trends  # noqa: E402
import witness  # noqa: E402
from tables import Deadline, Table  # noqa: E402

from labconsole.wire.version import __version__  # noqa: E402

DEFAULT = ROOT / "docs" / "validation.md"
SIMULATED = "simulated"


def tables(deadline: Deadline, options: argparse.Namespace) -> dict[str, Callable[[], Table]]:
    """What the document consists of, by the word that ``--only`` takes."""
    known: dict[str, Callable[[], Table]] = {
        "loss": lambda: loss.injected_loss(deadline, quick=options.quick),
        "intervals": lambda: intervals.coverage(quick=options.quick),
    }
    if options.quick:
        return known
    return known | {
        "observer": lambda: instrument.observer_effect(deadline),
        "faults": lambda: breaking.every_fault(deadline),
        "limits": lambda: instrument.known_limits(deadline),
        **simulations(options),
        "drills": lambda: drills.live(deadline),
        "jobs": lambda: guests.known_times(deadline),
        "crews": lambda: guests.crews(deadline),
        "starts": lambda: guests.starts_and_disks(deadline),
        "flows": lambda: flows.flows(deadline),
        "routers": lambda: routers.routers(deadline),
        "drops": lambda: witness.drops(deadline),
        "times": lambda: witness.times(deadline),
        "another-kernel": lambda: another_kernel.drops_and_times(deadline),
        **conclusions(options),
        "fuzz": lambda: fuzzing.crashes(options.share * fuzzing.SECONDS),
    }


def simulations(options: argparse.Namespace) -> dict[str, Callable[[], Table]]:
    """What is drawn and not measured: the same figures everywhere, some ten minutes on two cores."""
    share: float = options.share
    processes: int = options.processes

    def some(of: int) -> int:
        return max(1, round(share * of))

    return {
        "set-ups": lambda: set_up_means.coverage(some(set_up_means.SIMULATIONS), processes),
        "losses": lambda: lossy.coverage(some(lossy.SIMULATIONS), processes),
        "maxima": lambda: maxima.plateau(some(maxima.SIMULATIONS), processes),
        "null": lambda: null_evaluation.no_effect(some(null_evaluation.REPORTS), processes),
        "contrast": lambda: one_set_up.contrast(some(one_set_up.REPORTS), processes),
        "power": lambda: powers.seen(some(powers.REPORTS), processes),
        "equivalence": lambda: powers.equivalent(some(powers.REPORTS), processes),
        "command": lambda: commanded.no_effect(some(commanded.REPORTS), processes),
    }


def conclusions(options: argparse.Namespace) -> dict[str, Callable[[], Table]]:
    """What gates, trends, flows and abstracts conclude, simulated as well: some ten minutes on two cores."""
    share: float = options.share
    processes: int = options.processes

    def some(of: int) -> int:
        return max(1, round(share * of))

    return {
        "gates": lambda: gates.conclusions(some(gates.GATES), processes),
        "trends": lambda: trends.trends(some(trends.SERIES), processes),
        "shares": lambda: shares.coverage(some(shares.SIMULATIONS), processes),
        "contradictions": guest_contradictions.found,
        "references": lambda: references.beside_papers(some(references.REPORTS), processes),
    }


def conditions(began: float, load: tuple[float, ...]) -> document.Conditions:
    """When and on what."""
    commit = _said("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD")
    changed = _said("git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no", "--", "labconsole")
    now = datetime.datetime.now(datetime.UTC)
    machine = (
        f"labconsole {__version__}. Kernel {platform.release()}, {os.cpu_count()} CPUs ({_processor()}), "
        f"Python {platform.python_version()}, {_first_line('tcpdump', '--version')}, {_first_line('nft', '--version')}, "
        f"{_first_line('tc', '-V')}. Load average {load[0]:.1f} at the beginning, {os.getloadavg()[0]:.1f} at the end; "
        f"{(time.monotonic() - began) / 60:.1f} minutes; as {'root' if os.geteuid() == 0 else 'a user'}. Simulations draw "
        f"from numpy's default generator with seeds ({simulating.SEED}, number of the table, number of the chunk)."
    )
    return document.Conditions(
        time=f"{now:%Y-%m-%d %H:%M} UTC",
        commit=(commit or "not known") + (" with changes" if changed else ""),
        machine=machine,
    )


def _said(*argv: str) -> str:
    environment = {**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    except OSError:
        return ""
    return (done.stdout or done.stderr).strip() if done.returncode == 0 else ""


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "model not known")


def _first_line(*argv: str) -> str:
    return next(iter(_said(*argv).splitlines()), f"{argv[0]} not known")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out",
        type=Path,
        help="the document; its prose is kept, and its files are next to it (default: docs/validation.md)",
    )
    parser.add_argument("--quick", action="store_true", help="a few rows in half a minute; needs --out")
    parser.add_argument(
        "--only",
        action="append",
        metavar="TABLE",
        help="loss, intervals, observer, faults, limits, drills, jobs, crews, starts, flows, routers, drops, times, another-kernel, fuzz; of what is simulated set-ups, losses, maxima, "
        "null, contrast, power, equivalence, command, gates, trends, shares, contradictions, references, or simulated for all of it; may be given again; needs --out",
    )
    parser.add_argument(
        "--renew",
        action="append",
        metavar="TABLE",
        help="this table only, in place of its file and its line in the document; may be given again",
    )
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="begin nothing new on a lab after so long (default: 60)"
    )
    parser.add_argument(
        "--share",
        type=float,
        default=1.0,
        help="of the simulations, and of the time for fuzz: 0.05 for a look; needs --out",
    )
    parser.add_argument(
        "--processes", type=int, default=2, help="for simulations (default: 2); the figures are the same"
    )
    options = parser.parse_args()
    if options.out is None and (options.quick or options.only or options.share != 1):
        parser.error("a part of the document would take the place of the whole: name another with --out")
    deadline, began, load = Deadline.after(options.minutes), time.monotonic(), os.getloadavg()
    wanted = tables(deadline, options)
    if options.only and options.renew:
        parser.error("--only writes a document of its own, and --renew changes one: give either")
    named = set(options.only or options.renew or ())
    if unknown := sorted(named - {*wanted, SIMULATED}):
        parser.error(f"{unknown[0]} is no table: use {', '.join((*wanted, SIMULATED))}")
    only = (named or set(wanted)) | ({*simulations(options), *conclusions(options)} if SIMULATED in named else set())
    path = options.out or DEFAULT
    text = path.read_text() if path.exists() else f"# Validation\n\n{document.BEGIN}{document.END}"
    try:
        document.check(path, text, renew=bool(options.renew))
    except ValueError as exc:
        parser.error(f"{path}: {exc}")
    made: list[Table] = []
    with tempfile.TemporaryDirectory() as home:
        for variable in ("XDG_STATE_HOME", "XDG_DATA_HOME"):
            os.environ[variable] = str(Path(home) / variable.lower())
        for word, make in wanted.items():
            if word in only:
                print(f"{time.monotonic() - began:6.0f} s  {word}", flush=True)
                made.append(make())
    failures = [f"{table.title}: {failure}" for table in made for failure in table.failures]
    rows = sum(len(table.rows) for table in made)
    finding = f"**{len(failures)} failures**" if failures else "No failures"
    path.write_text(text)
    document.write(path, made, conditions(began, load), renew=bool(options.renew))
    print("\n".join([*failures, f"{finding} in {rows} rows, {time.monotonic() - began:.0f} s"]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
