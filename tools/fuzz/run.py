"""``make fuzz``: gives changed and made-up inputs to the readers of foreign files and words. tools/fuzz/README.md.

Each target runs in a process of its own, bounded in memory and in time for each input. An input that is neither taken
nor refused in words is kept below build/fuzz with its traceback. Exit status 1 when there is one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tools")]

from fuzz.campaign import CURRENT, has_atheris, run_campaign  # noqa: E402

KEPT = ROOT / "build" / "fuzz"
GRACE_S = 90.0
"""For imports, seeds, and the input that is the last one."""


def run_target(
    name: str, seconds: float, kept: Path = KEPT, *, number: int | None = None, use_atheris: bool | None = None
) -> dict[str, Any]:
    """Fuzz one target in a process of its own: what campaign.Outcome says. A process that did not end by itself is a
    finding, with the input that it had last.
    """
    directory = kept / name
    directory.mkdir(parents=True, exist_ok=True)
    outcome = directory / "outcome.json"
    outcome.unlink(missing_ok=True)
    chosen = has_atheris() if use_atheris is None else use_atheris
    argv = [sys.executable, __file__, name, "--seconds", str(seconds), "--kept", str(kept), "--child"]
    argv += [] if number is None else ["--number", str(number)]
    argv += ["--atheris" if chosen else "--no-atheris"]
    with (directory / "log").open("wb") as log:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=ROOT,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        try:
            child.wait(seconds + GRACE_S)
            ended = f"ended with status {child.returncode}"
        except subprocess.TimeoutExpired:
            ended = "did not end"
        finally:
            child.kill()
            child.wait()
    if outcome.exists():
        found: dict[str, Any] = json.loads(outcome.read_text())
        return found
    last = (directory / "log").read_text(errors="replace").strip().splitlines()[-1:]
    words = f"the process {ended}: {''.join(last)[:200]}"
    return {
        "target": name,
        "engine": "",
        "inputs": 0,
        "refused": 0,
        "seconds": seconds,
        "slowest_s": 0.0,
        "grown_bytes": 0,
        "findings": {words: str(directory / CURRENT)},
    }


def describe(found: dict[str, Any]) -> str:
    """An outcome as lines."""
    line = (
        f"{found['target']:<12} {found['inputs']:>8} inputs, {found['refused']} refused, {found['seconds']:.0f} s "
        f"({found['engine']}); slowest {found['slowest_s']:.2f} s, memory +{found['grown_bytes'] >> 20} MiB"
    )
    return "\n".join([line, *(f"  {what}\n    {path}" for what, path in found["findings"].items())])


def read_again(name: str, path: Path) -> int:
    """One input, with its traceback. 1 when it is neither taken nor refused."""
    from fuzz.targets import TARGETS

    target, directory = TARGETS[name], KEPT / name / "files"
    directory.mkdir(parents=True, exist_ok=True)
    try:
        target.open_reader(directory)(path.read_bytes())
    except target.refusals as refusal:
        print(f"refused: {refusal!r}"[:2000])
        return 0
    except Exception:
        print(traceback.format_exc().encode("ascii", "backslashreplace").decode())
        return 1
    print("taken")
    return 0


def main() -> int:
    """Exit status 0 when every input was taken or refused in words."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="what to give inputs to; --list names all")
    parser.add_argument("--all", action="store_true", help="every target, one after the other")
    parser.add_argument("--list", action="store_true", help="the targets")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target (default: 60)")
    parser.add_argument(
        "--input", type=Path, metavar="FILE", help="give this file to the target, and show the traceback"
    )
    parser.add_argument("--atheris", action=argparse.BooleanOptionalAction, help="default: where it is installed")
    parser.add_argument("--kept", type=Path, default=KEPT, help="directory for inputs (default: build/fuzz)")
    parser.add_argument("--number", type=int, help="that random inputs begin with (default: another each time)")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    number = random.SystemRandom().randrange(1 << 40) if args.number is None else args.number
    if args.child:
        run_campaign(args.targets[0], args.kept / args.targets[0], args.seconds, number, use_atheris=bool(args.atheris))
    from fuzz.targets import TARGETS

    if args.list:
        print("\n".join(f"{target.name:<12} {target.summary}" for target in TARGETS.values()))
        return 0
    names = list(TARGETS) if args.all else args.targets
    if not names or not set(names) <= TARGETS.keys():
        parser.error(f"name targets, or --all: {', '.join(TARGETS)}")
    if args.input is not None:
        return max(read_again(name, args.input) for name in names)
    failed = False
    for name in names:
        found = run_target(name, args.seconds, args.kept.resolve(), number=args.number, use_atheris=args.atheris)
        failed |= bool(found["findings"])
        print(describe(found), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
