"""Tests of the lab, and once more the few that failed: ``once_more.py PYTEST-ARGUMENTS``.

A test of the lab judges rates and times on a machine that others may use at the same time, so now and then one is
disturbed. Up to five that failed are run again, one after the other and on new labs; what failed stays in the output,
and the last line names it. A test that fails twice, or a sixth, fails the whole.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

MAY_BE_REPEATED = 5
TESTS_FAILED = 1  # pytest's exit status; any other than 0 means that tests could not be run


def run(arguments: list[str], cache: Path) -> tuple[int, list[str]]:
    """pytest's exit status, and the names of the tests that failed."""
    status = subprocess.run(
        [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *arguments], check=False
    ).returncode
    failed = cache / "v" / "cache" / "lastfailed"
    return status, sorted(json.loads(failed.read_text())) if failed.exists() else []


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="once-more-") as directory:
        status, failed = run(sys.argv[1:], Path(directory) / "first")
        if status != TESTS_FAILED or not 0 < len(failed) <= MAY_BE_REPEATED:
            return status
        print(f"{len(failed)} failed; once more: {', '.join(failed)}", flush=True)
        status, again = run(failed, Path(directory) / "second")
        print(
            f"failed once: {', '.join(sorted(set(failed) - set(again))) or 'none'}; twice: {', '.join(again) or 'none'}"
        )
        return status


if __name__ == "__main__":
    sys.exit(main())
