"""Linux pktgen through /proc/net/pktgen: configured, read back, started by a child that blocks, its results read."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional

from labconsole.agent.processes.children import ArmedChild, ChildSide, sleep_until
from labconsole.agent.sending.pktgen_files import (
    CONTROL,
    THREAD_PREFIX,
    DeviceFile,
    ProcFiles,
    cleanup_ours,
    parse_device,
    parse_owner,
    parse_version,
    refuse_foreign,
    thread_cpu,
)
from labconsole.wire.codec import WireError
from labconsole.wire.stream_spec import OVERTIME_NS, StreamSpec

# -- settings ----------------------------------------------------------------------------------------------------------
# pktgen's settings for a stream, and their verification: every value is read back.
#
# The kernel clamps and truncates silently.

MAX_DIGITS = 10
"""The kernel reads the first ten digits of a number and ignores the rest."""

_ENOTSUPP = 524
"""Not in errno: the kernel's own, which some drivers return."""

ERRNO_SENTENCES = {
    errno.ENETDOWN: "the interface is down",
    errno.ENODEV: "no such interface",
    errno.EBUSY: "the device is already in use",
    errno.EINVAL: "pktgen does not know or accept this",
    errno.EACCES: "permission denied: pktgen needs root",
    errno.EPERM: "permission denied: pktgen needs root",
    errno.EOPNOTSUPP: "the driver does not support shared packet buffers (clone_skb and burst need them)",
    _ENOTSUPP: "the driver does not support shared packet buffers (clone_skb and burst need them)",
}


@dataclass(frozen=True)
class PktgenLine:
    """One line to write, and the name and value that Params must show afterwards, or None if it shows none."""

    line: str
    shown_as: Optional[str] = None
    shown: Optional[str] = None
    optional: bool = False
    """Kernels that do not know it send the same frames without it."""


def build_settings(spec: StreamSpec, count: int) -> List[PktgenLine]:
    """Return all settings of a stream, in the order in which they are written."""
    numbers = {
        "pkt_size": spec.pkt_size_bytes,
        "count": count,
        "delay": spec.delay_ns,
        "udp_src_min": spec.udp_source_port,
        "udp_dst_min": spec.udp_sink_port,
    }
    for name, value in numbers.items():
        if len(str(value)) > MAX_DIGITS:
            raise WireError(
                "bad_request",
                "stream %s: %s %d has more than %d digits, and pktgen would truncate it"
                % (spec.stream, name, value, MAX_DIGITS),
                {"stream": spec.stream, "field": name},
            )
    settings = [
        PktgenLine("pkt_size %d" % spec.pkt_size_bytes, "min_pkt_size", str(spec.pkt_size_bytes)),
        PktgenLine("count %d" % count, "count", str(count)),
        PktgenLine("delay %d" % spec.delay_ns, "delay", str(spec.delay_ns)),
        PktgenLine("clone_skb 0", "clone_skb", "0"),
        # Missing before 3.18. Params shows it only above 1.
        PktgenLine("burst 1", optional=True),
        PktgenLine("dst_mac %s" % spec.destination_mac, "dst_mac", spec.destination_mac.lower()),
    ]
    if spec.source_mac is not None:
        settings.append(PktgenLine("src_mac %s" % spec.source_mac, "src_mac", spec.source_mac.lower()))
    # With another maximum pktgen counts up from frame to frame, the maximum included.
    texts = {"src_min": spec.source_ip, "src_max": spec.source_ip, "dst_min": spec.sink_ip, "dst_max": spec.last_ip}
    for name, text in texts.items():
        settings.append(PktgenLine("%s %s" % (name, text), name, text))
    for end, port in (("src", spec.udp_source_port), ("dst", spec.udp_sink_port)):
        # The maximum is exclusive, but with max = min pktgen takes min: one port.
        for bound in ("min", "max"):
            name = "udp_%s_%s" % (end, bound)
            settings.append(PktgenLine("%s %d" % (name, port), name, str(port)))
    settings.append(PktgenLine("flag QUEUE_MAP_CPU", optional=True))
    return settings


def configure(files: ProcFiles, device: str, settings: List[PktgenLine]) -> None:
    """Write, check the answer, and read everything back. Raises WireError naming the parameter."""
    for setting in settings:
        try:
            files.write(device, setting.line)
        except OSError as exc:
            if setting.optional and exc.errno == errno.EINVAL:
                continue
            raise WireError(
                "pktgen_refused", "pktgen refused %r for %s: %s" % (setting.line, device, describe_error(exc))
            ) from exc
        answer = parse_device(files.read(device)).result_text
        if not answer.startswith("OK:") and not setting.optional:
            raise WireError("pktgen_refused", "pktgen answered %r to %r for %s" % (answer, setting.line, device))
    shown = parse_device(files.read(device))
    expected = [(item.shown_as, item.shown) for item in settings if item.shown_as]
    expected += [("max_pkt_size", dict(expected)["min_pkt_size"]), ("burst", None)]
    for name, wanted in expected:
        got = shown.params.get(name or "")
        if got != wanted:
            raise WireError(
                "pktgen_mismatch",
                "pktgen set %s of %s to %s instead of %s" % (name, device, got, wanted),
                {"device": device, "parameter": name, "wanted": wanted, "got": got},
            )
    surplus = sorted(set(shown.flags) - {"QUEUE_MAP_CPU", "SHARED"})
    if surplus:
        raise WireError(
            "pktgen_mismatch",
            "pktgen has unrequested flags %s on %s" % (" ".join(surplus), device),
            {"device": device, "parameter": "flags", "wanted": "", "got": " ".join(surplus)},
        )


def describe_error(exc: OSError) -> str:
    """Describe the meaning of an error that pktgen returned."""
    return ERRNO_SENTENCES.get(exc.errno or 0) or exc.strerror or "errno %s" % exc.errno


def choose_threads(specs: List[StreamSpec], cpus: List[int]) -> List[int]:
    """Return a CPU for each stream: the requested one with the fewest streams, else one of its own; CPU 0, which serves
    most interrupts, comes last.
    """
    chosen: List[int] = []
    free = sorted(cpus, key=lambda cpu: (cpu == 0, cpu))
    for spec in specs:
        if spec.cpus is not None:
            missing = [cpu for cpu in spec.cpus if cpu not in cpus]
            if missing:
                raise WireError(
                    "bad_request",
                    "stream %s: no pktgen thread runs on CPU %d, only on %s" % (spec.stream, missing[0], cpus),
                    {"stream": spec.stream, "field": "cpus"},
                )
            chosen.append(min(spec.cpus, key=chosen.count))
        else:
            taken = chosen + [other.cpus[0] for other in specs if other.cpus]
            chosen.append(min(free, key=taken.count))
    return chosen


# -- streams -----------------------------------------------------------------------------------------------------------
# The non-obvious part is ownership. ``start`` and ``stop`` act on every device of the network namespace, including
# those of other programs, so nothing is touched while a foreign device is configured. The write of ``start`` blocks
# until the last device has ended; a fatal signal to the writer makes the kernel stop all threads
# (pktgen_wait_all_threads_run sees signal_pending). So the writer is a process that dies with the agent, and we stop by
# killing it: writing ``stop`` would block on kernels before 5.2 (fixed in 720f1de4021f).

STOP_LIMIT_S = 2.0
TELL_AFTER_S = 0.1
"""How long a killed writer's own stop may take before ``stop`` is written as well."""
LATE_START_LIMIT_S = 0.25
"""A kernel thread looks for work every tenth of a second (wait_event_..._timeout(HZ/10) in pktgen_thread_worker)."""
POLL_NS = 10_000_000
SETTLE_LIMIT_S = 0.5
"""rem_device_all takes 125 ms in the kernel's thread, after the write has returned."""

# -- the blocking start -----------------------------------------------------------------------------------------------


def write_start(files: ProcFiles, side: ChildSide) -> None:
    """Run the writer: wait for the instant, write ``start``, which returns when all streams have ended."""
    side.ready()
    at_ns = side.wait_word()
    if at_ns is not None:
        sleep_until(at_ns, lambda: False)
    try:
        files.write(CONTROL, "start")
    except OSError as exc:
        side.failed("pktgen_refused", "pktgen did not start: %s" % describe_error(exc))


def fork_writer(files: ProcFiles) -> ArmedChild:
    return ArmedChild(lambda side: write_start(files, side))


@dataclass
class _Stream:
    spec: StreamSpec
    device: str
    thread: str
    count: int
    count_reason: str


class PktgenBackend:
    """One device per stream, one writer for all."""

    def __init__(self, files: ProcFiles, *, make_writer: Callable[[Any], Any] = fork_writer) -> None:
        self._files, self._make_writer = files, make_writer
        self._tag = "lc%d" % os.getpid()
        self._streams: List[_Stream] = []
        self._writer: Any = None
        self._version: Optional[str] = None
        self._given = False
        self._stopped_as: Optional[str] = None
        self._timer: Optional["asyncio.Task[None]"] = None
        self._results: Optional[List[Dict[str, Any]]] = None

    async def prepare(self, specs: List[StreamSpec]) -> List[Dict[str, Any]]:
        durations = {spec.duration_s for spec in specs}
        if len(durations) > 1:
            raise WireError("bad_request", "pktgen stops all streams of a node at once: give them the same duration_s")
        try:
            self._version = parse_version(self._files.read(CONTROL))
            await self._wait_settled()
            refuse_foreign(self._files)
            cpus = [thread_cpu(name) for name in self._files.threads()]
            for number, (spec, cpu) in enumerate(zip(specs, choose_threads(specs, cpus))):
                self._add(spec, "%s@%s-%d" % (spec.interface, self._tag, number), THREAD_PREFIX + str(cpu))
            refuse_foreign(self._files, [stream.device for stream in self._streams])
        except (OSError, ValueError) as exc:
            text = describe_error(exc) if isinstance(exc, OSError) else str(exc)
            raise WireError("pktgen_failed", "cannot work with %s: %s" % (self._files.root, text)) from exc
        self._writer = self._make_writer(self._files)
        await self._writer.wait_ready()
        return [
            {
                "stream": stream.spec.stream,
                "generator": "pktgen",
                "version": self._version,
                "interface": stream.spec.interface,
                "burst_packets": 1,
                "cpus": [thread_cpu(stream.thread)],
            }
            for stream in self._streams
        ]

    def _add(self, spec: StreamSpec, device: str, thread: str) -> None:
        count, reason = spec.planned_packets()
        settings = build_settings(spec, count)
        try:
            self._files.write(thread, "add_device " + device)
        except OSError as exc:
            raise WireError(
                "pktgen_refused", "pktgen did not accept %s on %s: %s" % (spec.interface, thread, describe_error(exc))
            ) from exc
        self._streams.append(_Stream(spec, device, thread, count, reason))
        answer = self._files.threads()[thread].result
        if not answer.startswith("OK:"):
            raise WireError("pktgen_refused", "%s answered %r to add_device %s" % (thread, answer, device))
        configure(self._files, device, settings)

    async def start(self, at_monotonic_ns: Optional[int]) -> None:
        refuse_foreign(self._files, [stream.device for stream in self._streams])
        duration_s = self._streams[0].spec.duration_s
        self._given = True
        self._writer.give_word(at_monotonic_ns)
        if duration_s is not None:
            begin_ns = time.monotonic_ns() if at_monotonic_ns is None else at_monotonic_ns
            self._timer = asyncio.ensure_future(self._stop_late(begin_ns, round(duration_s * 1e9)))

    async def _stop_late(self, begin_ns: int, duration_ns: int) -> None:
        """Stop streams with a duration when it is over: always needed flat out; a paced run only if it cannot keep
        pace.
        """
        if any(stream.spec.paced for stream in self._streams):
            duration_ns += OVERTIME_NS
        end_ns: Optional[int] = None
        while self._writer.alive:
            rest_ns = begin_ns - time.monotonic_ns()
            if rest_ns <= 0:
                # A kernel thread looks for work ten times a second, so the true start is up to 100 ms late.
                devices = self._begun()
                if len(devices) == len(self._streams):
                    end_ns = max(device.started_us for device in devices) * 1000 + duration_ns
                    rest_ns = end_ns - time.monotonic_ns()
                else:
                    rest_ns = POLL_NS
            if end_ns is not None and rest_ns <= 0:
                self._end_run("duration")
                return
            await asyncio.sleep(min(rest_ns / 1e9, 1.0))

    def _begun(self) -> List[DeviceFile]:
        """Return our devices that run or have run since the start. A vanished one does not count."""
        devices = []
        for stream in self._streams:
            try:
                device = parse_device(self._files.read(stream.device))
            except (OSError, ValueError):  # the interface is gone, and its file with it: the result reports that
                continue
            if device.result is not None or device.result_text == "Starting":
                devices.append(device)
        return devices

    def _end_run(self, reason: str) -> None:
        if self._writer is not None and self._writer.alive:
            self._stopped_as = self._stopped_as or reason
            self._writer.signal(signal.SIGTERM)

    def progress(self) -> List[Dict[str, Any]]:
        rows = []
        for stream in self._streams:
            now_ns = time.monotonic_ns()
            try:
                device: Optional[DeviceFile] = parse_device(self._files.read(stream.device))
            except (OSError, ValueError):  # the interface is gone, and its file with it: the result reports that
                device = None
            rows.append(
                {
                    "stream": stream.spec.stream,
                    "sent_packets": device.sent_packets if device else None,
                    "errors": device.errors if device else None,
                    "monotonic_ns": now_ns,
                }
            )
        return rows

    async def stop(self) -> None:
        self._end_run("stopped")

    async def wait(self) -> List[Dict[str, Any]]:
        await self._writer.wait_end()
        await self._wait_stopped()
        if self._results is None:
            self._results = [self._result(stream) for stream in self._streams]
        return self._results

    async def _wait_stopped(self) -> None:
        """Wait, after the writer has ended, until no device of ours runs or will.

        A writer killed in the first 100 ms leaves a request to run that the kernel's thread has not seen yet; it will
        start without a process to stop it. So a run that has not begun is given time to begin, and is then stopped.
        """
        ours = {stream.device for stream in self._streams}
        # A thread that sleeps out a delay reacts only after it.
        limit_s = STOP_LIMIT_S + max((stream.spec.delay_ns for stream in self._streams), default=0) / 1e9
        now = time.monotonic()
        all_begun_by = now + (LATE_START_LIMIT_S if self._given and len(self._begun()) < len(ours) else 0)
        tell_at, give_up = now + TELL_AFTER_S, now + LATE_START_LIMIT_S + limit_s
        while True:
            running = any(ours & set(thread.running) for thread in self._files.threads().values())
            now = time.monotonic()
            if not running and now >= all_begun_by:
                return
            if now > give_up:
                raise WireError("pktgen_failed", "pktgen still runs %g s after it was stopped" % limit_s)
            if running and now >= tell_at:
                # Blocks on old kernels while the writer has the lock, and the writer is dead.
                await asyncio.get_running_loop().run_in_executor(None, self._files.write, CONTROL, "stop")
                tell_at = now + limit_s
            await asyncio.sleep(POLL_NS / 1e9)

    def _result(self, stream: _Stream) -> Dict[str, Any]:
        spec = stream.spec
        row: Dict[str, Any] = {
            "stream": spec.stream,
            "generator": "pktgen",
            "version": self._version,
            "interface": spec.interface,
            "sent_packets": None,
            "errors": None,
            "error_text": None,
            "started_monotonic_ns": None,
            "stopped_monotonic_ns": None,
            "started_wall_ns": None,
            "elapsed_ns": None,
            "idle_ns": None,
            "delay_ns": spec.delay_ns,
            "burst_packets": 1,
            "requested_count": spec.count,
            "stopped_by": "error",
            "raw": None,
        }
        try:
            device = parse_device(self._files.read(stream.device))
        except (OSError, ValueError):
            row["error_text"] = "pktgen's device %s has disappeared with its counts" % stream.device
            return row
        row["raw"] = "Result: " + device.result_text
        row["sent_packets"], row["errors"] = device.sent_packets, device.errors
        if self._writer.last_words is not None:
            row["error_text"] = self._writer.last_words
            return row
        if device.result is None:
            row["error_text"] = "pktgen ended with %r" % device.result_text
            if device.result_text.startswith("OK:"):  # the answer to the last setting: it has not run
                row["raw"], row["error_text"] = None, "pktgen was not started"
                if self._stopped_as:
                    row["stopped_by"], row["error_text"] = self._stopped_as, None
            return row
        started_ns = device.started_us * 1000
        row["sent_packets"], row["errors"] = device.result.packets, device.result.errors
        row["started_monotonic_ns"], row["stopped_monotonic_ns"] = started_ns, device.stopped_us * 1000
        row["started_wall_ns"] = time.time_ns() - (time.monotonic_ns() - started_ns)
        row["elapsed_ns"] = max(device.result.elapsed_us * 1000, device.result.packets * spec.delay_ns)
        row["idle_ns"] = device.result.idle_us * 1000
        if device.result.packets >= stream.count:
            row["stopped_by"] = stream.count_reason
        elif self._stopped_as:
            row["stopped_by"] = self._stopped_as
        else:
            row["error_text"] = "pktgen sent %d of %d packets and stopped: the link of %s went down" % (
                device.result.packets,
                stream.count,
                spec.interface,
            )
        return row

    async def close(self) -> None:
        """Stop, reap the writer, remove our devices, and see them gone."""
        if self._timer is not None:
            self._timer.cancel()
            await asyncio.wait([self._timer])
        if self._writer is not None:
            await self._writer.close()
            await self._wait_stopped()
        ours = [stream.device for stream in self._streams]
        if not ours:
            return
        # Each rem_device_all blocks its writer for an eighth of a second.
        left = await asyncio.get_running_loop().run_in_executor(None, lambda: cleanup_ours(ours, files=self._files))
        self._streams = []
        if left:
            raise WireError("pktgen_in_use", "some devices could not be removed from pktgen: %s" % "; ".join(left))
        await self._wait_gone(ours)

    async def _wait_gone(self, devices: List[str]) -> None:
        give_up = time.monotonic() + SETTLE_LIMIT_S
        while any(set(devices) & set(thread.devices) for thread in self._files.threads().values()):
            if time.monotonic() > give_up:
                raise WireError("pktgen_failed", "pktgen still lists %s after their removal" % ", ".join(devices))
            await asyncio.sleep(0.01)

    async def _wait_settled(self) -> None:
        """Wait for devices that an earlier session of ours removed and that may still be listed for a moment."""
        give_up = time.monotonic() + SETTLE_LIMIT_S
        while time.monotonic() < give_up:
            listed = [device for thread in self._files.threads().values() for device in thread.devices]
            if not any(parse_owner(device) == self._tag for device in listed):
                return
            await asyncio.sleep(0.01)
