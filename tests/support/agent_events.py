"""Events as an agent sends them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NUMBERS = list(range(25))
COUNTERS = {
    "event": "counters",
    "monotonic_ns": 1,
    "wall_ns": 2,
    "missed": 0,
    "late": False,
    "namespaces": {"": [[1, 25, NUMBERS], [2, 24, NUMBERS[:7]]], "guest1": []},
}
LINK = {
    "namespace": "",
    "index": 2,
    "name": "eth1",
    "mac": "02:00:00:00:00:01",
    "mtu": 1500,
    "kind": None,
    "driver": None,
    "up": True,
    "carrier": None,
    "speed_bps": None,
    "pause": None,
    "master": None,
}
RESULT = {
    "stream": "s1",
    "generator": "afpacket",
    "version": "1 (sendmmsg)",
    "interface": "eth1",
    "sent_packets": 7,
    "errors": 0,
    "error_text": None,
    "started_monotonic_ns": 3,
    "stopped_monotonic_ns": 9,
    "started_wall_ns": 4,
    "elapsed_ns": 7,
    "idle_ns": None,
    "delay_ns": 1,
    "burst_packets": 1,
    "requested_count": None,
    "stopped_by": "duration",
    "raw": "Result: OK: 900(c900+d0) usec\n  11111pps",
}
PROGRESS = {"stream": "s1", "sent_packets": 7, "errors": 0, "monotonic_ns": 4}
USE = {"busy": 0.5, "softirq": 0.3, "steal": 0.0}
PROCESSORS = {
    "event": "processors",
    "monotonic_ns": 1,
    "wall_ns": 2,
    "elapsed_ns": 10**9,
    "processors": 4,
    "mean": USE,
    "busiest": {"busy": 1.0, "softirq": 0.9, "steal": 0.1},
    "busiest_number": 3,
}
MARK = {
    "reply": False,
    "address": "198.18.64.7",
    "mac": "02:00:00:00:00:07",
    "icmp_id": 4711,
    "icmp_sequence": 0,
    "icmp_code": 165,
    "payload_bytes": 40,
    "pattern": 165,
    "pattern_from_byte": 4,
    "wall_ns": 1795424198062176849,
}
GOOD: list[dict[str, Any]] = [
    COUNTERS,
    PROCESSORS,
    {"event": "links", "links": [LINK]},
    {"event": "generator", "monotonic_ns": 5, "streams": [PROGRESS]},
    {"event": "generator.done", "streams": [RESULT]},
    {"event": "generator.done", "streams": [], "error": {"code": "pktgen_failed", "message": "it hangs"}},
    {"event": "capture.died", "capture": "s1", "message": "no room"},
    {"event": "mark.seen", "marks": "t1", "mark": MARK},
    {"event": "queue.changed", "queue": "lcqw", "place": 1, "taken_ns": 5, "rates_bps": [3_000_000, None]},
    {"event": "notice", "code": "x", "message": "y"},
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
