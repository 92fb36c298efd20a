"""Captures: one tcpdump per interface, writing to a file that loses its name once tcpdump listens.

tcpdump writes to its stdout, a file that the agent opened, so it does not matter whether tcpdump (its dropped
privileges, its AppArmor profile) may create files there. The name is removed as soon as tcpdump listens, so a capture
cannot be left behind, however the agent ends.

Closing waits until tcpdump has read everything that the kernel buffers: its ring delivers a block only when it is full
or after a second, and an interrupted tcpdump leaves the last block unread.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from labconsole.agent.capture_dir import CaptureFile
from labconsole.agent.debug import complain
from labconsole.agent.processes import children, linux
from labconsole.agent.reading.proc_files import read_text
from labconsole.wire.capture import StartCapture
from labconsole.wire.codec import WireError

LISTEN_TIMEOUT_S = 5.0
SETTLE_TIMEOUT_S = 1.5
"""tcpdump's ring releases a block after 1 s at the latest."""
SETTLE_STEP_S = 0.02
STOP_TIMEOUT_S = 3.0
SPACE_MARGIN_RATIO = 1.1
SPACE_RESERVE_BYTES = 16 * 1024 * 1024
RECORD_HEADER_BYTES = 16
MAX_FILTER_CHARACTERS = 4000
MAX_UNREAD_CHARACTERS = 200
MAX_UNREAD_LINES = 5

_NO_STAMPS = re.compile(r"WARNING: .*time ?stamp", re.IGNORECASE)
_FILTER = re.compile(r"[\x20-\x7e]*\Z")
_COUNT = re.compile(r"(\d{1,20}) packets? (captured|received by filter|dropped by kernel|dropped by interface)")
_ERRORS = (
    ("no_permission", re.compile(r"permission|not permitted|CAP_NET_", re.IGNORECASE)),
    (
        "no_such_interface",
        re.compile(r"no such (?:device|interface)|doesn't exist|interface (?:has )?disappeared", re.IGNORECASE),
    ),
    ("interface_down", re.compile(r"network is down|not up\b|went down", re.IGNORECASE)),
    (
        "bad_filter",
        re.compile(
            r"syntax error|can't parse filter|unknown (?:host|network|port|protocol|ether host|osi proto)|illegal"
            r"|expression|invalid (?:token|IPv[46] address)|not a valid",
            re.IGNORECASE,
        ),
    ),
    ("no_space", re.compile(r"no space", re.IGNORECASE)),
)
_FIELDS = {
    "captured": "captured_packets",
    "received by filter": "received_by_filter_packets",
    "dropped by kernel": "dropped_kernel_packets",
    "dropped by interface": "dropped_interface_packets",
}


_SETTLED = {"captured_packets", "received_by_filter_packets", "dropped_kernel_packets"}


def parse_counts(text: str, unread: Optional[List[str]] = None) -> Dict[str, int]:
    """Parse tcpdump's own counts from its closing lines, or from the line that SIGUSR1 requests.

    tcpdump 3.9 to 5.0 prints the same text: one count a line at its end, all in one line behind its name before. Other
    lines are added to ``unread``.
    """
    found: Dict[str, int] = {}
    for line in re.split(r"[\r\n]+", text):
        parts = [_COUNT.fullmatch(part.strip()) for part in re.sub(r"^tcpdump: ", "", line).split(", ")]
        if all(part is not None for part in parts):
            found.update({_FIELDS[part.group(2)]: int(part.group(1)) for part in parts if part is not None})
        elif unread is not None and line.strip():
            unread.append(line.strip()[:MAX_UNREAD_CHARACTERS])
    return found


def parse_tcpdump_error(text: str, exit_status: Optional[int] = None) -> WireError:
    """Parse tcpdump's error message to a stable code and a sentence."""
    # Its messages begin with its name; some are followed by a line in parentheses that repeats them.
    lines = [line[9:] for line in text.splitlines() if line.startswith("tcpdump: ")]
    lines = [line for line in lines if not line.startswith("WARNING") and "listening on" not in line]
    if not lines:
        ending = "was killed by signal %d" % -exit_status if exit_status and exit_status < 0 else "ended"
        return WireError("capture_failed", "tcpdump %s without a message" % ending)
    for code, pattern in _ERRORS:
        if pattern.search(lines[-1]):
            return WireError(code, "tcpdump: %s" % lines[-1])
    return WireError("capture_failed", "tcpdump: %s" % lines[-1])


def is_signal_handled(pid: int, number: int) -> bool:
    """Whether the process handles a signal: an older tcpdump would die of an unknown one."""
    match = re.search(r"^SigCgt:\s*([0-9a-f]+)", read_text("/proc/%d/status" % pid) or "", re.MULTILINE)
    return match is not None and bool(int(match.group(1), 16) >> (number - 1) & 1)


def require_space(directory: str, expected_packets: int, snap_bytes: int) -> None:
    needed = int(expected_packets * (snap_bytes + RECORD_HEADER_BYTES) * SPACE_MARGIN_RATIO) + SPACE_RESERVE_BYTES
    try:
        status = os.statvfs(directory)
    except OSError as exc:
        raise WireError("no_directory", "cannot use %s for captures: %s" % (directory, exc.strerror)) from None
    free = status.f_bavail * status.f_frsize
    if free < needed:
        raise WireError(
            "no_space",
            "a capture of %d packets needs %d MB in %s, which has %d MB free"
            % (expected_packets, needed // 1000000 + 1, directory, free // 1000000),
            {"needed_bytes": needed, "free_bytes": free, "directory": directory},
        )


class RunningCapture:
    """One running tcpdump."""

    def __init__(
        self,
        name: str,
        spool: CaptureFile,
        on_death: Callable[[str, str], None],
        spacing_gap_ns: Optional[int] = None,
        sampling_seed: int = 0,
        flow_bins: Optional[Tuple[int, int]] = None,
    ) -> None:
        self.name, self.spool, self._on_death = name, spool, on_death
        self._spacing_gap_ns, self._sampling_seed = spacing_gap_ns, sampling_seed
        self._flow_bins = flow_bins
        """Length of the bins in ns, and their maximum number."""
        self.sending_ns: Optional[int] = None
        """How long the stream was sent; must be set before the counting begins."""
        self.process: Optional[asyncio.subprocess.Process] = None
        self._said = ""
        self._news = asyncio.Event()
        self._stopping = False
        self._listener: Optional["asyncio.Task[None]"] = None
        self._follower: Any = None
        self._counting = asyncio.Lock()
        self._died: Optional[WireError] = None

    async def start(self, argv: Sequence[str], namespaces: Sequence[Any]) -> None:
        self.process = await children.spawn(
            argv,
            stdout=self.spool.descriptor,
            namespaces=namespaces,
            ignore_setgroups=os.geteuid() == 0 and linux.setgroups_is_denied(),
        )
        self._listener = asyncio.ensure_future(self._listen())
        try:
            await asyncio.wait_for(
                self._wait_until(lambda: "listening on" in self._said or self._ended), LISTEN_TIMEOUT_S
            )
        except asyncio.TimeoutError:
            raise WireError("capture_failed", "tcpdump was not listening after %g s" % LISTEN_TIMEOUT_S) from None
        if self._ended:
            raise parse_tcpdump_error(self._said, self.process.returncode)
        if "-j" in argv and _NO_STAMPS.search(self._said):  # it only warns, and uses the kernel's
            raise WireError("not_supported", "tcpdump gets no time stamps from this port's NIC")

    async def count(self) -> int:
        """Count the packets in the file so far. Only after the traffic has ended: counting would take CPU from the
        capture.
        """
        if self.process is not None and not self._ended and is_signal_handled(self.process.pid, signal.SIGUSR2):
            self.process.send_signal(signal.SIGUSR2)  # makes tcpdump flush its buffer
        async with self._counting:
            return int(await self._run_in_thread(self._opened().poll))

    async def stop(self) -> Dict[str, Any]:
        """End tcpdump once it has read everything, count, and release the file."""
        if self._died is not None:
            raise self._died
        assert self.process is not None
        await self._settle()
        self._stopping = True
        if not self._ended:
            self._said = ""  # its final messages start here
        self.process.send_signal(signal.SIGINT)
        try:
            await asyncio.wait_for(self._wait_until(lambda: self._ended), STOP_TIMEOUT_S)
        except asyncio.TimeoutError:
            raise WireError("capture_failed", "tcpdump did not end %g s after SIGINT" % STOP_TIMEOUT_S) from None
        result: Dict[str, Any] = dict.fromkeys(_FIELDS.values())
        unread: List[str] = []
        result.update(parse_counts(self._said, unread))
        for line in unread[:MAX_UNREAD_LINES]:
            complain("tcpdump of %s ended with %r" % (self.name, line))
        result["file_bytes"] = os.fstat(self.spool.descriptor).st_size
        async with self._counting:
            follower = self._opened()
            result["analysis"] = await self._run_in_thread(follower.finish)
            result["sha256"] = follower.sha256
            if follower.flows is not None:
                result["flows"] = follower.flows.report()
        return result

    async def close(self) -> None:
        """Kill what still runs. The file is the caller's."""
        self._stopping = True
        if self.process is not None:
            children.kill_group(self.process)
            await self.process.wait()
        if self._listener is not None:
            await asyncio.wait([self._listener], timeout=0.2)
            self._listener.cancel()
        if self._follower is not None and not self._counting.locked():
            self._follower.close()

    def kill(self) -> None:
        self._stopping = True
        if self.process is not None:
            children.kill_group(self.process)

    @property
    def _ended(self) -> bool:
        return self._listener is not None and self._listener.done()

    def _opened(self) -> Any:
        if self._follower is None:
            from labconsole.packets.flows import FlowBins
            from labconsole.packets.follower import CaptureFollower

            self._follower = CaptureFollower(
                self.spool.path,
                spacing_gap_ns=self._spacing_gap_ns,
                sending_ns=self.sending_ns,
                sampling_seed=self._sampling_seed,
                digest=True,
                flows=None if self._flow_bins is None else FlowBins(*self._flow_bins),
                streams=self._flow_bins is None,
            )
        return self._follower

    @staticmethod
    async def _run_in_thread(work: Callable[[], Any]) -> Any:
        """Count in a thread. An uncountable file is the capture's fault, not a bug."""
        try:
            return await asyncio.get_running_loop().run_in_executor(None, work)
        except (OSError, ValueError) as exc:
            raise WireError("capture_unreadable", "cannot count what tcpdump wrote: %s" % exc) from exc

    async def _wait_until(self, true: Callable[[], bool]) -> None:
        while not true():
            self._news.clear()
            await self._news.wait()

    async def _listen(self) -> None:
        """Read tcpdump's messages until it has ended."""
        assert self.process is not None and self.process.stderr is not None
        try:
            while True:
                data = await self.process.stderr.read(4096)
                if not data:
                    break
                self._said = (self._said + data.decode("utf-8", "replace"))[-16384:]
                self._news.set()
            await self.process.wait()
        finally:
            asyncio.get_running_loop().call_soon(self._news.set)  # after this task counts as done
        if not self._stopping and "listening on" in self._said:
            self._died = parse_tcpdump_error(self._said, self.process.returncode)
            self._on_death(self.name, self._died.message)

    async def _settle(self) -> None:
        """Wait until tcpdump has read every packet that the kernel buffers for it."""
        assert self.process is not None
        if not is_signal_handled(self.process.pid, signal.SIGUSR1):
            return  # it cannot report; missing packets then show in its counts
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SETTLE_TIMEOUT_S
        while loop.time() < deadline and not self._ended:
            self._said = ""
            self.process.send_signal(signal.SIGUSR1)
            try:
                await asyncio.wait_for(self._wait_until(lambda: "dropped by kernel" in self._said or self._ended), 0.5)
            except asyncio.TimeoutError:
                continue  # blocked by a full disk, or stopped: the deadline bounds it
            counts = parse_counts(self._said)
            # The kernel counts a dropped packet as received, too. An incomplete or unknown line has no counts.
            if counts.keys() >= _SETTLED and (
                counts["captured_packets"] + counts["dropped_kernel_packets"] >= counts["received_by_filter_packets"]
            ):
                return
            await asyncio.sleep(SETTLE_STEP_S)


def tcpdump_argv(program: str, request: StartCapture) -> List[str]:
    """Build tcpdump's command line. Raises WireError for a request that would add anything else."""
    interface, expression = request.interface, request.filter
    if not 1 <= len(interface) <= 15 or interface.startswith("-") or "/" in interface:
        raise WireError("bad_request", "interface: %r is not a valid interface name" % interface)
    if len(expression) > MAX_FILTER_CHARACTERS or not _FILTER.match(expression) or expression.startswith("-"):
        raise WireError("bad_request", "filter must be a filter expression in printable ASCII")
    argv = [program, "-nn", "-i", interface]
    argv += ["-B", str(request.buffer_kib), "-s", str(request.snap_bytes), "-Q", "in"]
    if request.immediate:
        argv.append("--immediate-mode")
    if request.nic_stamps:
        argv += ["-j", "adapter_unsynced"]
    argv += ["--time-stamp-precision=nano", "-w", "-"]
    if os.geteuid() == 0:
        # tcpdump drops root by default, and a change of credentials cancels its death with the agent.
        argv += ["-Z", "root"]
    return [*argv, expression] if expression else argv
