"""``make quick``: lint, types, import contracts and the unit tests of the rooms that changed.

Changed means: since the last commit on main. A minute for most changes. It says which rooms it tested; ``make test``
tests the rest, and the lab.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNIT = ROOT / "tests" / "unit"
HOUSE = ROOT / "tests" / "house"
BASE = "main"


def changed_files() -> list[str]:
    """Paths in the repository that differ from where this branch left main, or on main from its last commit."""
    base = git("merge-base", BASE, "HEAD").strip() or "HEAD"
    files = (
        git("diff", "--name-only", base).splitlines() + git("ls-files", "--others", "--exclude-standard").splitlines()
    )
    return sorted(set(files))


def git(*args: str) -> str:
    """What git prints; nothing when it fails, as without a branch of that name."""
    return subprocess.run(["git", "-C", str(ROOT), *args], capture_output=True, text=True, check=False).stdout


def tests_of(files: list[str], rooms: list[str]) -> list[str]:
    """Test directories of the rooms named or changed, and changed test files outside of them.

    Always those of tests/house, but for the golden sets, which take a minute by themselves.
    """
    house = {path.relative_to(ROOT).as_posix() for path in HOUSE.glob("test_*.py") if "golden" not in path.name}
    wanted = {f"tests/unit/{room}" for room in rooms} | house
    if not rooms:
        for file in files:
            parts = Path(file).parts
            if parts[0] == "labconsole" and len(parts) > 2:
                wanted.add(f"tests/unit/{parts[1]}")
            elif parts[0] == "tests" and parts[1:2] == ("unit",) and len(parts) > 3:
                wanted.add(f"tests/unit/{parts[2]}")
            elif parts[0] == "tests" and parts[-1].startswith("test_") and parts[1] in ("unit", "house"):
                wanted.add(file)
    return sorted(path for path in wanted if (ROOT / path).exists())


def main() -> int:
    """Exit status 0 when everything passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = sorted(path.name for path in UNIT.iterdir() if path.is_dir() and not path.name.startswith("_"))
    parser.add_argument(
        "rooms", nargs="*", metavar="ROOM", help=f"rooms to test [those that changed]: {', '.join(known)}"
    )
    args = parser.parse_args()
    unknown = [room for room in args.rooms if room not in known]
    if unknown:
        parser.error(f"no tests for {', '.join(unknown)}; rooms with tests: {', '.join(known)}")
    tests = tests_of(changed_files(), args.rooms)
    rooms = [test.removeprefix("tests/unit/") for test in tests if test.startswith("tests/unit/")]
    print(f"testing {', '.join(rooms) or 'no room: none has changed'}, and the house", flush=True)
    left = sorted({test.removeprefix("tests/unit/") for test in tests_of(changed_files(), [])} - {*rooms, *tests})
    steps = [
        ["ruff", "check", "--quiet", "labconsole", "tests", "tools"],
        ["ruff", "format", "--check", "--quiet", "labconsole", "tests", "tools"],
        ["mypy"],
        ["lint-imports"],
        ["pytest", "-q", "--numprocesses", "auto", *tests],
    ]
    beside = Path(sys.executable).parent  # the programs of the same environment
    failed = [name for name, *args in steps if subprocess.run([beside / name, *args], cwd=ROOT, check=False).returncode]
    if failed:
        print(f"failed: {', '.join(failed)}")
    if left:
        print(f"changed, but not tested: {', '.join(left)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
