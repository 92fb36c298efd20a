"""How what stands in the journal is undone: changes by their own class (labconsole/network), the rest here.

Entries are plain JSON so that the keeper, another process, can hold and run them. Both the agent and the keeper call
``run``. All undoing is idempotent and content when nothing is left to undo.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any, Callable, Dict, List, Optional

from labconsole.agent.debug import complain
from labconsole.agent.processes import linux

Entry = Dict[str, Any]
Resolve = Callable[[str], Optional[int]]
"""The descriptor of a namespace the agent made, None for "" (where the agent is); LookupError when it is gone."""


def no_namespace(name: str) -> Optional[int]:
    """The keeper's ``Resolve``: the agent's namespaces ended with it, and what was in them too."""
    if name:
        raise LookupError(name)
    return None


def run(entry: Entry, resolve: Resolve) -> None:
    """Undo what one entry promises. Raises OSError or pyroute2's NetlinkError when it cannot be done."""
    if entry["kind"] in OF_THE_AGENT:
        OF_THE_AGENT[entry["kind"]](entry)
        return
    from labconsole.network import change

    try:
        namespace = resolve(entry.get("namespace", ""))
    except LookupError:
        return
    linux.in_namespace(namespace, lambda: change.undo(entry))


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


def _started_guest(entry: Entry) -> None:
    """Ask it to shut down; where that cannot be done, take its power away. One that is off lets both fail."""
    for argv in _stopping(entry):
        try:
            status = _begin(argv).wait(entry["limit_s"])
        except (OSError, subprocess.SubprocessError) as exc:
            complain("%s: %s" % (argv[0], exc))
        else:
            if status == 0:
                return


def begin_stopping(entry: Entry) -> None:
    """The first step of that, without waiting for it."""
    try:
        _begin(_stopping(entry)[0])
    except OSError as exc:
        complain("guest %s: %s" % (entry["guest"], exc))


def _stopping(entry: Entry) -> List[List[str]]:
    return [argv for argv in (entry.get("ask"), entry["kill"]) if argv]


def _begin(argv: List[str]) -> "subprocess.Popen[bytes]":
    from labconsole.agent.processes.children import CHILD_ENVIRONMENT

    null = subprocess.DEVNULL
    return subprocess.Popen(argv, stdin=null, stdout=null, stderr=null, env=CHILD_ENVIRONMENT, start_new_session=True)


STARTED_GUEST = "started_guest"
OF_THE_AGENT: Dict[str, Callable[[Entry], None]] = {"path": _path, "pktgen": _pktgen, STARTED_GUEST: _started_guest}
"""What the agent promises for itself: no changes that a console asked for, and in no namespace."""
