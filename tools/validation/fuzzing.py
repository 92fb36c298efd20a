"""Every reader of foreign files and words, given changed and made-up inputs for a while: what came of them."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tables import NO, YES, Table

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

from fuzz.run import run_target
from fuzz.targets import TARGETS

SECONDS = 60.0
LEAST_INPUTS = 10
COLUMNS = ("target", "what is read", "inputs", "refused in words", "read", "slowest, processor time", "memory", "is")


def crashes(seconds: float = SECONDS) -> Table:
    """The table: ``seconds`` for each target, on inputs that are others each time."""
    table = Table("28. Fuzzing", COLUMNS)
    engines: set[str] = set()
    with tempfile.TemporaryDirectory() as directory:
        for name, target in TARGETS.items():
            print(f"  {name}", flush=True)
            found = run_target(name, seconds, Path(directory))
            engines.add(found["engine"])
            failures = list(found["findings"])
            if not failures and found["inputs"] < LEAST_INPUTS:
                failures = [f"only {found['inputs']} inputs"]
            table.add(
                name,
                target.summary,
                found["inputs"],
                found["refused"],
                found["inputs"] - found["refused"],
                f"{found['slowest_s']:.2f} s",
                f"+{found['grown_bytes'] / 2**20:.0f} MiB",
                NO if failures else YES,
                failure="; ".join(failures) or None,
            )
    table.summary = (
        f"{seconds:g} s for each target ({' or '.join(sorted(filter(None, engines)))}); an input may take "
        "512 MiB and 5 s of a processor, a bundle 30 s."
    )
    return table
