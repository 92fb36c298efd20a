"""Twenty seeded faults, one in each room, and whether the tests find them: ``python tools/seeded_faults.py``.

Each fault replaces one place of a copy of the tree; then the test files that should find it run there, and must fail.
``--revision`` takes the copy from a revision instead of the working tree, to compare tests before and after a change.
``--without`` runs the same tests without the faults: then all must pass. Exit status 1 when something is not as it
must be.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOUND, NOT_FOUND, BROKEN, PASSED, FAILED = "found", "NOT FOUND", "not run", "passed", "FAILED"
TESTS_FAILED = 1  # pytest's exit status
LIMIT_S = 900.0


@dataclass(frozen=True)
class Fault:
    """``right`` occurs once in the file; ``tests`` are the files of which one must fail with ``wrong`` in its place."""

    name: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]

    @property
    def room(self) -> str:
        return self.file.partition("/")[0].removesuffix(".py")

    def apply(self, tree: Path) -> str:
        """Put the fault into a tree; return the file's text from before. Raises ValueError if it does not fit."""
        path = tree / "labconsole" / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.right) != 1:
            raise ValueError(f"{self.file}: has the text of the fault {text.count(self.right)} times: {self.right!r}")
        path.write_text(text.replace(self.right, self.wrong), encoding="utf-8")
        return text


FAULTS = (
    Fault(
        "sequence numbers do not wrap at 2^32",
        "packets/sequence.py",
        "((first - highest + 0x80000000) & 0xFFFFFFFF) - 0x80000000",
        "first - highest",
        ("tests/unit/packets/test_sequence_tracker.py",),
    ),
    Fault(
        "a node's text may turn the direction of a line",
        "wire/clean.py",
        '{"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}',
        '{"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}',
        ("tests/unit/wire/test_clean_text.py",),
    ),
    Fault(
        "the route that was there before is not put back",
        "network/routing.py",
        '                route.route("replace", **entry["former"])\n',
        "",
        ("tests/lab/test_agent_session.py",),
    ),
    Fault(
        "two sessions may lock one lease",
        "agent/lease.py",
        "fcntl.flock(descriptor, kind | fcntl.LOCK_NB)",
        "fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)",
        ("tests/lab/test_agent_session.py",),
    ),
    Fault(
        "a formula behind a tab reaches a spreadsheet",
        "text/sanitize.py",
        r'r"(^|[;\t\n])(?=',
        r'r"(^|[;\n])(?=',
        ("tests/unit/text/test_foreign_words.py",),
    ),
    Fault(
        "a kilobit has 1024 bits",
        "units.py",
        '{"": 1, "k": 10**3,',
        '{"": 1, "k": 2**10,',
        ("tests/unit/test_units.py",),
    ),
    Fault(
        "a bin that began before both guests sent counts as whole",
        "measure/fairness.py",
        "begin = -((origin_ns - first_ns) // bin_ns)",
        "begin = (first_ns - origin_ns) // bin_ns",
        ("tests/unit/measure/test_sharing.py",),
    ),
    Fault(
        "the seed draws the same order of points in every repetition",
        "model/plan/order.py",
        'keyed(block, f"{seed}/{r}/{text}", r)',
        'keyed(block, f"{seed}/{text}", r)',
        ("tests/unit/model/test_plan.py",),
    ),
    Fault(
        "packets that no counter shows as dropped are lost at the source",
        "verdict/verdict.py",
        'if code == "lost_at_source" and not hop.drops:',
        'if code == "lost_at_source" and hop is None:',
        ("tests/unit/verdict/test_driver_losses.py",),
    ),
    Fault(
        "of two notes on a run the older one is kept",
        "store/notes.py",
        "there.written_at > note.written_at",
        "there.written_at < note.written_at",
        ("tests/unit/store/test_notes.py",),
    ),
    Fault(
        "a host key that is marked as revoked is trusted",
        "nodes/hostkeys.py",
        "return self.keys, self.authorities, self.revoked",
        "return self.keys, self.authorities, []",
        ("tests/lab/test_nodes_login.py",),
    ),
    Fault(
        "no way back to the source, so reverse-path filtering drops the stream",
        "platforms/base/forwarding.py",
        '    changes.append(Route(destination=f"{source_ip}/32", interface=inbound, namespace=namespace))\n',
        "",
        ("tests/unit/platforms/test_undo.py", "tests/lab/test_dry_run.py"),
    ),
    Fault(
        "a cache that others may write to is used for machines",
        "lab/images.py",
        "status.st_mode & 0o022:",
        "status.st_mode & 0o002:",
        ("tests/unit/lab/test_image_cache.py",),
    ),
    Fault(
        "a plan stops one invalid trial later than it says",
        "engine/execution/stop_conditions.py",
        "self._in_a_row >= stop.invalid_in_a_row",
        "self._in_a_row > stop.invalid_in_a_row",
        ("tests/unit/engine/test_plan_execution_conduct.py", "tests/unit/engine/test_plan_execution.py"),
    ),
    Fault(
        "a table has the upper bound in the column of the lower one",
        "report/point_columns.py",
        'bounds=(f"{name}_ci_low_bps", f"{name}_ci_high_bps")',
        'bounds=(f"{name}_ci_high_bps", f"{name}_ci_low_bps")',
        ("tests/unit/report/test_report.py", "tests/house/test_golden_sets.py"),
    ),
    Fault(
        "a limiter's queue is as long as the larger of its two bounds",
        "experiments/flow/limiters.py",
        "min(queue_bytes, most_frames_bytes)",
        "max(queue_bytes, most_frames_bytes)",
        ("tests/unit/experiments/test_flows.py",),
    ),
    Fault(
        "a file of a bundle is compared by its size alone",
        "bundle/archive.py",
        'elif listed != {"bytes": member.size, "sha256": content_hash.hexdigest()}:',
        'elif listed["bytes"] != member.size:',
        ("tests/unit/bundle/test_bundle.py",),
    ),
    Fault(
        "esc keeps a filter that was typed",
        "tui/parts/filter_line.py",
        'Action("escape", "leave(False)"',
        'Action("escape", "leave(True)"',
        ("tests/unit/tui/test_bench.py",),
    ),
    Fault(
        "a metric has the upper bound under the name of the lower one",
        "api/metrics.py",
        "point.rate_bps.ci_low,\n                point.rate_bps.ci_high,",
        "point.rate_bps.ci_high,\n                point.rate_bps.ci_low,",
        ("tests/unit/api/test_metrics.py",),
    ),
    Fault(
        "an undecided gate ends as a passed one does",
        "cli/commands/gate.py",
        "return status[found.outcome]",
        'return status[found.outcome] if found.outcome == "failed" else 0',
        ("tests/unit/cli/test_gate.py",),
    ),
)


@contextmanager
def copy_of(revision: str | None) -> Iterator[Path]:
    """A copy of the files that git knows, of the working tree or of a revision."""
    with tempfile.TemporaryDirectory(prefix="seeded-faults-") as directory:
        if revision is None:
            command = "git ls-files -z | xargs -0 tar -c | tar -x -C"
        else:
            command = f"git archive {revision} | tar -x -C"
        subprocess.run(["bash", "-o", "pipefail", "-c", f"{command} {directory}"], cwd=ROOT, check=True)
        yield Path(directory)


def judge(fault: Fault, tree: Path) -> str:
    """Run the tests that should find the fault, in a tree that has it."""
    before = fault.apply(tree)
    try:
        done = run_tests(fault, tree)
    finally:
        (tree / "labconsole" / fault.file).write_text(before, encoding="utf-8")
    if done.returncode == TESTS_FAILED and " error" not in done.stdout.splitlines()[-1]:
        return FOUND
    return NOT_FOUND if done.returncode == 0 else f"{BROKEN}: {(done.stdout or done.stderr).splitlines()[-1]}"


def run_tests(fault: Fault, tree: Path) -> subprocess.CompletedProcess[str]:
    """The fault's tests in a tree, up to the first that fails."""
    paths = os.pathsep.join(str(tree / part) for part in (".", "tests", "tools"))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    words = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not platforms", *fault.tests]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", metavar="ROOM", help="only the faults in these rooms, such as verdict")
    parser.add_argument("--revision", help="take labconsole and its tests from this revision (default: working tree)")
    parser.add_argument("--without", action="store_true", help="run the tests without the faults: all must pass")
    parser.add_argument("--list", action="store_true", help="print the faults and do not run anything")
    args = parser.parse_args()
    faults = [fault for fault in FAULTS if not args.words or fault.room in args.words]
    if args.list:
        for fault in faults:
            print(f"{fault.room}: {fault.name} ({', '.join(fault.tests)})")
        return 0
    right = 0
    with copy_of(args.revision) as tree:
        for fault in faults:
            began = time.monotonic()
            if args.without:
                result = PASSED if run_tests(fault, tree).returncode == 0 else FAILED
            else:
                result = judge(fault, tree)
            right += result in (FOUND, PASSED)
            print(f"{result:10} {time.monotonic() - began:4.0f} s  {fault.room}: {fault.name}", flush=True)
    print(f"{right} of {len(faults)} {PASSED if args.without else FOUND}")
    return 0 if right == len(faults) else 1


if __name__ == "__main__":
    raise SystemExit(main())
