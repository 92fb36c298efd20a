"""Starting a lab's supervisor, and waiting until it reports that the lab is ready."""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labconsole.errors import LabSetupError
from labconsole.lab.spec import LabSpec
from labconsole.lab.state import ProcessIdentity

UP_S = 90.0
MACHINE_UP_S = 540.0
"""More than the time limits of its steps together: fetching and unpacking the kernel, booting, building the lab."""

DOWN_S = 20.0
_LOG_LINES = 8


def start_supervisor(spec: LabSpec, directory: Path, lock: int) -> None:
    """Start the daemon and wait until it reports that the lab is ready."""
    receive, send = os.pipe()
    environment = dict(os.environ)
    package_root = str(Path(__file__).resolve().parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (package_root, environment.get("PYTHONPATH"))))
    log = directory / "log"
    with log.open("ab") as log_file, io.FileIO(receive, "rb") as ready:
        log.chmod(0o600)
        try:
            starter = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "labconsole.lab.supervisor",
                    f"--directory={directory}",
                    f"--spec={json.dumps(spec.to_json())}",
                    f"--ready-fd={send}",
                    f"--lock-fd={lock}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                cwd="/",
                env=environment,
                pass_fds=(send, lock),
                start_new_session=True,
            )
        finally:
            os.close(send)
        supervisor: ProcessIdentity | None = None
        try:
            starter.wait()
            deadline_s = time.monotonic() + (
                MACHINE_UP_S if spec.generator == "pktgen" or spec.uut == "machine" else UP_S
            )
            for message in _lines(ready, deadline_s):
                if "pid" in message:
                    with contextlib.suppress(ProcessLookupError):
                        supervisor = ProcessIdentity.of(int(message["pid"]))
                elif "ready" in message:
                    return
                else:
                    raise LabSetupError(str(message["error"]))
            raise LabSetupError(f"the lab {spec.name} did not come up; its log ends: {_tail(log)}")
        except BaseException:
            supervisor = supervisor or _announced(starter, ready)
            if supervisor is not None and not supervisor.signal_and_wait(signal.SIGTERM, DOWN_S):
                supervisor.signal_and_wait(signal.SIGKILL, DOWN_S)
            raise


def _announced(starter: subprocess.Popen[bytes], ready: io.FileIO) -> ProcessIdentity | None:
    """Return the supervisor of a lab whose building was interrupted before it reported its id, or None if it never
    does.
    """
    starter.wait()
    with contextlib.suppress(LabSetupError, ProcessLookupError):
        for message in _lines(ready, time.monotonic() + DOWN_S):
            if "pid" in message:
                return ProcessIdentity.of(int(message["pid"]))
    return None


def _lines(ready: io.FileIO, deadline_s: float) -> Iterator[dict[str, Any]]:
    """Read the supervisor's messages until it closes the pipe. Raises LabSetupError if that takes too long."""
    received = b""
    while True:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0 or not select.select([ready], [], [], left_s)[0]:
            raise LabSetupError("the lab was not ready in time; on an overloaded machine, use fewer sources")
        chunk = ready.read(65536)
        if not chunk:
            return
        received += chunk
        while b"\n" in received:
            line, _, received = received.partition(b"\n")
            yield dict(json.loads(line))


def _tail(log: Path) -> str:
    with contextlib.suppress(OSError):
        lines = log.read_text(errors="replace").strip().splitlines()[-_LOG_LINES:]
        if lines:
            return " | ".join(lines)
    return "(empty)"
