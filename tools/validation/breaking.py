"""Each fault of tests/support/faults.py once, with what came of it. The three checks are made there."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

from tables import NO, YES, Deadline, Table

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support import faults

COLUMNS = (
    "fault",
    "said on stderr",
    "in the record",
    "exit status",
    "nothing left after",
    "runs lost",
    "false losses",
    "plan finished",
    "survived",
)


def every_fault(deadline: Deadline, *, only: tuple[str, ...] | None = None) -> Table:
    """The table."""
    table = Table("4. Faults", COLUMNS)
    labs: dict[str, lab.LabStatus] = {}
    try:
        for fault in faults.FAULTS:
            if only is None or fault.name in only:
                print(f"  {fault.name}", flush=True)
                _break(table, fault, labs, deadline)
    finally:
        for status in labs.values():
            lab.down(status.spec.name)
    survived = sum(row[-1] == YES for row in table.rows)
    table.summary = f"{survived} of {len(table.rows)} survived: the word, nothing left, nothing lost."
    return table


def _break(table: Table, fault: faults.Fault, labs: dict[str, lab.LabStatus], deadline: Deadline) -> None:
    reason = _impossible(fault, deadline)
    if reason is not None:
        table.not_done(fault.name, reason)
        return
    try:
        if fault.ssh_server not in labs:
            name = f"valid{os.getpid()}f{fault.ssh_server[0]}"
            labs[fault.ssh_server] = lab.up(LabSpec(name=name, sources=1, ssh_server=fault.ssh_server))
        with tempfile.TemporaryDirectory() as directory:
            outcome = faults.survive(faults.Bench(labs[fault.ssh_server], Path(directory)), fault)
    except Exception as exc:
        words = f"{type(exc).__name__}: {exc}"
        table.add(fault.name, *[""] * (len(COLUMNS) - 2), NO, failure=words[:600])
        if fault.ssh_server in labs:  # what it has left must not be the next one's
            lab.down(labs.pop(fault.ssh_server).spec.name)
        return
    codes = list(dict.fromkeys(code for code in outcome.codes if code in fault.codes))
    table.add(
        fault.name,
        f"“{outcome.said}”" if outcome.said else "",
        ", ".join(codes),
        _status(outcome.status),
        f"{outcome.gone_s:.1f} s",
        f"0 of {outcome.runs}",  # survive() has compared every saved run, and every (point, repetition)
        outcome.lossy,
        "by replay" if outcome.resumed else "by itself",
        NO if outcome.lossy else YES,
        failure=f"{outcome.lossy} runs count and report a loss that was none" if outcome.lossy else None,
    )


def _impossible(fault: faults.Fault, deadline: Deadline) -> str | None:
    if deadline.passed:
        return "no time was left"
    if fault.root and os.geteuid() != 0:
        return "only root can do that"
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [tool for tool in fault.tools if shutil.which(tool, path=path) is None]
    return f"{', '.join(missing)} is not installed" if missing else None


def _status(status: int) -> str:
    return str(status) if status >= 0 else f"killed ({signal.Signals(-status).name})"
