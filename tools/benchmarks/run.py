"""Run every benchmark of this directory, one after the other, and print what each prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Exit 1 if one could not run. Figures are for people to read: no figure fails anything."""
    failed = []
    for script in sorted(Path(__file__).parent.glob("bench_*.py")):
        print(f"== {script.stem}", flush=True)
        if subprocess.run([sys.executable, str(script), *sys.argv[1:]]).returncode != 0:
            failed.append(script.stem)
    if failed:
        print("could not run: " + ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
