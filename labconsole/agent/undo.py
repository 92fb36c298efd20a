"""Undoing the entries of the journal: changes by their own class (labconsole/network), the rest here.

Entries are plain JSON so that the keeper, another process, can store and run them. Both the agent and the keeper call
``run``. All undoing is idempotent and does nothing if nothing is left to undo.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from typing import Any, Callable, Dict, List, Optional, Tuple

from labconsole.agent.debug import complain
from labconsole.agent.processes import linux

Entry = Dict[str, Any]
KILL_S = 60.0
"""Time limit for taking a guest's power away."""

QUESTION_S, POLL_S = 10.0, 0.5
"""Time limit for checking whether a guest still runs, and the interval between two checks."""

Resolve = Callable[[str], Optional[int]]
"""Returns the descriptor of a namespace the agent made, or None for "" (the agent's own). Raises LookupError if it is
gone.
"""


def no_namespace(name: str) -> Optional[int]:
    """The keeper's ``Resolve``: the agent's namespaces and their contents ended with it."""
    if name:
        raise LookupError(name)
    return None


def run(entry: Entry, resolve: Resolve) -> None:
    """Undo the change of one entry. Raises OSError or pyroute2's NetlinkError if it cannot be done."""
    if entry["kind"] in AGENT_UNDO_ACTIONS:
        AGENT_UNDO_ACTIONS[entry["kind"]](entry)
        return
    from labconsole.network import change

    try:
        namespace = resolve(entry.get("namespace", ""))
    except LookupError:
        return
    linux.run_in_namespace(namespace, lambda: change.undo(entry))


def _path(entry: Entry) -> None:
    """Remove a file, and the private directory made for it."""
    if entry.get("file"):
        try:
            os.unlink(entry["file"])
        except FileNotFoundError:
            complain("%s has already disappeared" % entry["file"])
    if entry.get("directory"):
        shutil.rmtree(entry["directory"], ignore_errors=True)


def _pktgen(entry: Entry) -> None:
    from labconsole.agent.sending import pktgen_files

    pktgen_files.cleanup_ours(**entry.get("arguments", {}))


def _port_features(entry: Entry) -> None:
    from labconsole.network import nic_features

    left = nic_features.put_back(entry["features"])
    if left:
        raise OSError("not as before: %s" % left)


def _started_guest(entry: Entry) -> None:
    """Request its shutdown; if that fails, or it is not off in time, take its power away. Both fail for a guest that is
    off.
    """
    ask, runs = entry.get("ask"), entry.get("runs")
    if ask:
        until = time.monotonic() + entry["limit_s"]
        before = _answer(runs, QUESTION_S, subprocess.PIPE) if runs else None
        answer = _answer(ask, entry["limit_s"])
        if (
            answer is not None
            and answer[0] == 0
            and (runs is None or before is None or before[0] != 0 or _ends(runs, before, until))
        ):
            return
    _answer(entry["kill"], entry["limit_s"] if entry.get("inside") else KILL_S)


def _ends(runs: List[str], before: Tuple[int, bytes], until: float) -> bool:
    """Whether the text that identifies this start of a guest changes by then."""
    while time.monotonic() < until:
        time.sleep(POLL_S)
        if _answer(runs, QUESTION_S, subprocess.PIPE) not in (before, None):
            return True
    return False


def begin_stopping(entry: Entry) -> None:
    """Begin the guest's shutdown, without waiting for it."""
    try:
        _begin(entry.get("ask") or entry["kill"], subprocess.DEVNULL)
    except OSError as exc:
        complain("guest %s: %s" % (entry["guest"], exc))


def _answer(argv: List[str], limit_s: float, stdout: int = subprocess.DEVNULL) -> Optional[Tuple[int, bytes]]:
    """Return exit status and output, or None if it could not be run, or did not end and was killed."""
    try:
        process = _begin(argv, stdout)
    except OSError as exc:
        complain("%s: %s" % (argv[0], exc))
        return None
    try:
        printed, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired as exc:
        complain(str(exc))
        with suppress(OSError):  # another user's
            os.killpg(process.pid, signal.SIGKILL)
        return None
    return process.returncode, printed


def _begin(argv: List[str], stdout: int) -> "subprocess.Popen[bytes]":
    from labconsole.agent.processes.children import CHILD_ENVIRONMENT

    null = subprocess.DEVNULL
    return subprocess.Popen(argv, stdin=null, stdout=stdout, stderr=null, env=CHILD_ENVIRONMENT, start_new_session=True)


def import_undo_modules(kind: str) -> None:
    """Import everything that ``run`` needs for an entry of this kind."""
    if kind in AGENT_UNDO_ACTIONS:
        for name in _IMPORTS.get(kind, ()):
            importlib.import_module(name)
        return
    from labconsole.network import change, iproute

    change.load_all()
    iproute.load()


STARTED_GUEST = "started_guest"
AGENT_UNDO_ACTIONS: Dict[str, Callable[[Entry], None]] = {
    "path": _path,
    "pktgen": _pktgen,
    "port_features": _port_features,
    STARTED_GUEST: _started_guest,
}
"""The agent's own promises: no changes that a console requested, and in no namespace."""

_IMPORTS = {
    "pktgen": ("labconsole.agent.sending.pktgen_files",),
    "port_features": ("labconsole.network.nic_features",),
    STARTED_GUEST: ("labconsole.agent.processes.children",),
}
"""The modules that undoing these imports."""
