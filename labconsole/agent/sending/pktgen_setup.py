"""pktgen's settings for a stream, and their verification: every value is read back.

The kernel clamps and truncates silently.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import List, Optional

from labconsole.agent.sending.pktgen_files import ProcFiles, parse_device
from labconsole.wire.codec import WireError
from labconsole.wire.stream_spec import StreamSpec

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
