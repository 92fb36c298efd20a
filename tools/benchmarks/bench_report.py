"""What a report costs over very many runs: from the store through the table to design points, and the whole of it.

``python tools/benchmarks/bench_report.py [RUNS]``. Each way reads the same runs in a process of its own. Beside it: one
gzipped JSON file per run, as Flent keeps its results, read into the same table. Times depend on the machine; quote ratios
of one call.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

RUNS = 20_000
LIMIT_S = 3.0
SIZES, TARGETS = (64, 500, 1000, 1500), (10**7, 10**8, 2 * 10**8, 4 * 10**8, 6 * 10**8, 8 * 10**8, 9 * 10**8, "max")
PLATFORMS = ("raw", "container", "lxc", "qemu-virtio", "qemu-e1000", "uml")
NODES = ("src1", "src2", "uut", "snk1", "snk2")


def record(number: int) -> dict[str, Any]:
    """One run of an evaluation: two streams, the facts of five nodes, some 7 kB as those of the local lab."""
    from support.store_samples import planned

    point, repetition = divmod(number, 9)
    run = planned(number, point, repetition + 1, "invalid" if number % 97 == 0 else "valid").to_json()
    requested = run["requested"]
    requested["platform"] = PLATFORMS[point % 6]
    requested["frame_size_bytes"] = SIZES[point // 6 % 4]
    requested["target_bps"] = TARGETS[point // 24 % 8]
    requested["sources"] = 1 + point // 192 % 2
    requested["background"] = ("none", "idle", "light", "heavy")[point // 384 % 4]
    share = 1 - (number % 7) / 1000
    run["total"]["measured_bps"] *= share
    run["total"]["measured_pps"] *= share
    run["total"] |= {f"forwarding_{unit}": run["total"][f"measured_{unit}"] for unit in ("pps", "bps")}
    hop = {"node": "uut", "interface": "eth1", "packets": 710_225, "lost_packets": 0, "drops": {}}
    stream = {
        **run["streams"][0],
        "ledger": [{"hop": name, **hop} for name in ("source_nic", "uut_in", "uut_out", "sink_nic")],
    }
    run["streams"] = [stream, {**stream, "name": "s2"}][: requested["sources"]]
    facts = {
        "hostname": "h",
        "kernel": "6.1.0-28-amd64",
        "os": "Debian GNU/Linux 12 (bookworm)",
        "settings": ["x" * 40] * 12,
    }
    run["environment"] = {"nodes": {name: {"facts": facts, "round_trip_s": 0.0004} for name in NODES}}
    return run


def fill(directory: Path, runs: int) -> None:
    """The same runs as a store and as files."""
    from labconsole.store.importing import import_records
    from labconsole.store.open import open_store

    files = directory / "files"
    files.mkdir()

    def made() -> Any:
        for number in range(runs):
            one = record(number)
            with gzip.open(files / f"{one['run_id']}.json.gz", "wt", compresslevel=1) as stream:
                json.dump(one, stream)
            yield one

    with open_store(str(directory / "runs.sqlite")) as store:
        import_records(store, made())


def from_store(directory: Path) -> int:
    """As ``report`` makes its points, maxima and claims."""

    from labconsole.report.evaluation import evaluate
    from labconsole.store.open import open_store

    with open_store(str(directory / "runs.sqlite"), write=False) as store:
        return len(evaluate(store.list()).points)


def from_files(directory: Path) -> int:
    """The same points out of a file per run: every file is opened, unpacked and parsed for the few numbers in it."""
    from labconsole.model.record.summary import RunSummary
    from labconsole.report.evaluation import evaluate

    summaries = []
    for path in sorted((directory / "files").iterdir()):
        with gzip.open(path, "rt") as stream:
            data = json.load(stream)
        requested, total, plan = data["requested"], data["total"], data["plan"]
        summaries.append(
            RunSummary(
                run_id=data["run_id"],
                started_at=data["started_at"],
                testbed=data["testbed"],
                testbed_fingerprint=data["testbed_fingerprint"],
                emulated=data["emulated"],
                generator=data["streams"][0]["generator"],
                verdict=data["verdict"]["status"],
                reason_codes=tuple(reason["code"] for reason in data["verdict"]["reasons"]),
                has_series=False,
                plan_name=plan["name"],
                plan_hash=plan["hash"],
                plan_point=plan["point"],
                repetition=plan["repetition"],
                **{
                    name: requested[name]
                    for name in (
                        "platform",
                        "frame_size_bytes",
                        "frame_size_includes_fcs",
                        "sources",
                        "target_bps",
                        "background",
                        "duration_s",
                    )
                },
                **{
                    name: total[name]
                    for name in (
                        "offered_pps",
                        "offered_bps",
                        "measured_pps",
                        "measured_bps",
                        "loss_packets",
                        "loss_ratio",
                    )
                },
            )
        )
    return len(evaluate(summaries).points)


def everything(directory: Path) -> int:
    """All that ``report`` reckons before it draws: points, tables, findings with the records behind them."""
    from labconsole.experiments.units import report_units
    from labconsole.report.loading import load_report
    from labconsole.report.request import ReportRequest
    from labconsole.store.open import open_store

    with open_store(str(directory / "runs.sqlite"), write=False) as store:
        made = load_report(ReportRequest(), store, report_units(), place="", on_unreadable=print)
    return sum(len(table.rows) for table in made.tables)


def nothing(directory: Path) -> int:
    """What the imports alone cost."""

    import labconsole.report.evaluation
    import labconsole.store.writing  # noqa: F401

    return 0


WAYS: dict[str, Callable[[Path], int]] = {
    "imports alone": nothing,
    "store to design points": from_store,
    "files to design points": from_files,
    "whole report, undrawn": everything,
}


def one_way(name: str, directory: Path) -> None:
    """In a process of its own: time with and without the imports, and the most memory."""
    nothing(directory)
    began, cpu_began = time.perf_counter(), time.process_time()
    found = WAYS[name](directory)
    taken_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"taken_s": taken_s, "cpu_s": cpu_s, "found": found, "peak_mb": peak_mb}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", nargs="?", type=int, default=RUNS)
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("--directory", type=Path)
    args = parser.parse_args()
    if args.way:
        one_way(args.way, args.directory)
        return
    with tempfile.TemporaryDirectory() as given:
        directory = args.directory or Path(given)
        if not (directory / "runs.sqlite").exists():
            fill(directory, args.runs)
        results = {}
        for name in WAYS:
            done = subprocess.run(
                [sys.executable, __file__, "--way", name, "--directory", str(directory)],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            results[name] = json.loads(done.stdout)
        base, store = results["imports alone"]["peak_mb"], results["store to design points"]
        for name, result in results.items():
            print(
                f"{name:<24} {result['taken_s']:6.2f} s   {result['cpu_s']:6.2f} s CPU   "
                f"{result['cpu_s'] / store['cpu_s']:5.1f} x   "
                f"{result['peak_mb'] - base:6.0f} MB over the imports' {base:.0f}   {result['found']} found"
            )
        print(f"store to design points: {'within' if store['taken_s'] <= LIMIT_S else 'BEYOND'} {LIMIT_S:g} s")


if __name__ == "__main__":
    main()
