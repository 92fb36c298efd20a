"""A lab's directory, its lock, and its supervisor: started, and whether it still lives."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labconsole.errors import ConfigError, LabSetupError
from labconsole.lab.spec import NAME, LabSpec

# -- state -------------------------------------------------------------------------------------------------------------
# A lab's directory, its lock, and whether its supervisor still lives.
#
# The lock of a lab is an flock on its own directory, so that no lock file outlives it. ``down`` removes the directory
# while it owns the lock; a process that then gets the lock of a directory no longer at that path tries again.

LOCK_WAIT_S = 60.0
MAX_FILE_BYTES = 1024 * 1024
_LOCK_POLL_S = 0.05


def labs_directory() -> Path:
    """$XDG_STATE_HOME/labconsole/labs, by default below ~/.local/state."""
    base = os.environ.get("XDG_STATE_HOME", "")
    # The XDG specification requires ignoring a relative path.
    root = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return root / "labconsole" / "labs"


def lab_directory(name: str) -> Path:
    """Return the directory of one lab; LabSpec has checked the name, callers with a raw name use this check."""
    if not NAME.match(name):
        raise LabSetupError(f"{name!r} is not a valid name of a lab")
    return labs_directory() / name


@contextlib.contextmanager
def locked(directory: Path, *, create: bool) -> Iterator[int | None]:
    """Take the lab's lock. Yields its descriptor, or None if there is no directory and none is to be made."""
    descriptor = _acquire(directory, create=create)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _acquire(directory: Path, *, create: bool) -> int | None:
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        if create:
            try:
                directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError as exc:
                raise LabSetupError(f"cannot create the lab's directory {directory}: {exc.strerror}") from exc
        try:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            if create:
                continue
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if time.monotonic() > deadline:
                raise LabSetupError(
                    f"another `labconsole lab` command has been working on {directory.name} for {LOCK_WAIT_S:.0f} s"
                ) from None
            time.sleep(_LOCK_POLL_S)
            continue
        if _same_directory(descriptor, directory):
            return descriptor
        os.close(descriptor)


def _same_directory(descriptor: int, directory: Path) -> bool:
    try:
        there, here = directory.stat(), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


@dataclass(frozen=True)
class ProcessIdentity:
    """A process and its start time, so that another process with the same id is not mistaken for it."""

    pid: int
    start_ticks: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Identify a process. Raises ProcessLookupError if it does not exist."""
        ticks = _start_ticks(pid)
        if ticks is None:
            raise ProcessLookupError(pid)
        return cls(pid, ticks, _boot_id())

    @property
    def alive(self) -> bool:
        """Whether it still runs (a zombie does not)."""
        return _start_ticks(self.pid) == self.start_ticks and _boot_id() == self.boot_id

    def signal_and_wait(self, number: int, timeout_s: float) -> bool:
        """Send a signal (0: none) and wait for the end. Returns False if it did not end in time."""
        if not self.alive:
            return True
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            # Between the check above and pidfd_open another process may have got the id.
            if not self.alive:
                return True
            if number:
                signal.pidfd_send_signal(descriptor, number)
            poller = select.poll()
            poller.register(descriptor, select.POLLIN)
            return bool(poller.poll(timeout_s * 1000))
        except ProcessLookupError:
            return True
        finally:
            os.close(descriptor)


def _start_ticks(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # proc(5): field 3 is the state, field 22 the start time; the two before field 3 have been cut off.
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass(frozen=True)
class LabFile:
    """The content of lab.json. It is written when the lab is ready, last of all files."""

    spec: LabSpec
    index: int
    supervisor: ProcessIdentity
    init: ProcessIdentity
    owner: str
    started_at: str
    kernel: str

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "format": 1,
            "spec": self.spec.to_json(),
            "index": self.index,
            "supervisor": vars(self.supervisor),
            "init": vars(self.init),
            "owner": self.owner,
            "started_at": self.started_at,
            "kernel": self.kernel,
        }

    @classmethod
    def read(cls, directory: Path) -> LabFile | None:
        """Read the file, or return None if there is none. Raises LabSetupError if it is invalid."""
        path = directory / "lab.json"
        try:
            if path.stat().st_size > MAX_FILE_BYTES:
                raise ValueError(f"it is larger than {MAX_FILE_BYTES} bytes")
            data = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                LabSpec.from_json(data["spec"]),
                int(data["index"]),
                ProcessIdentity(**data["supervisor"]),
                ProcessIdentity(**data["init"]),
                str(data["owner"]),
                str(data["started_at"]),
                str(data["kernel"]),
            )
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            return None
        except (ConfigError, OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as exc:
            raise LabSetupError(f"{path} is not valid ({exc}); remove it, then run `labconsole lab up`") from exc

    def write(self, directory: Path) -> None:
        """Write the file atomically."""
        write_private(directory / "lab.json", json.dumps(self.to_json(), indent=1) + "\n")


def write_private(path: Path, text: str) -> None:
    """Write a file atomically that only its owner may read."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)


# -- starting the supervisor -------------------------------------------------------------------------------------------
# Starting a lab's supervisor, and waiting until it reports that the lab is ready.

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
