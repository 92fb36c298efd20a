"""What tests of untrusted input and tools/fuzz change: good files and words of each kind, and the parsers of words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from labconsole.agent import capture
from labconsole.agent.reading import drops, facts, host_activity, proc_files
from labconsole.agent.reading.survey import redact_secrets
from labconsole.agent.sending import pktgen_files
from support.capture_samples import ETHERNET, LOOP, NULL, RAW, SLL, SLL2, Packet, pcap, pcapng

RECORDINGS = Path(__file__).parents[1] / "recordings" / "pktgen"

HOSTS = """\
testbed: t
nodes:
  src1: {address: 127.0.0.1, roles: [source], user: u, port: 22, key: ~/.ssh/id, jump: a@b.c, python: python3}
  uut: {address: 127.0.0.1, roles: [uut], become: sudo, capture_dir: /var/tmp, generator_cpus: [0, 1]}
  snk1: {address: 127.0.0.1, roles: [sink]}
streams:
  - {name: s1, source: src1/eth1, uut_in: eth1, uut_out: eth5, sink: snk1/eth1, source_ip: 198.18.1.1, sink_ip: 198.19.1.1,
     link_speed: 1Gbit}
platforms:
  raw: {driver: raw, forwarding: route}
defaults: {generator: auto, observe: quiet, settle_s: 5, drain_s: 2, ssh_config: ~/.ssh/config}
"""
PLAN = """\
plan: p
platforms: [raw]
frame_sizes: [64, 1500]
targets: [10Mbit, max]
sources: [1]
duration_s: 10
repetitions: 3
order: blocked-random
seed: 1
tolerances: {}
"""
YAML_WORDS = [
    "[",
    "]",
    "{",
    "}",
    ": ",
    "- ",
    "? ",
    "&a ",
    "*a",
    "!!int ",
    "!!python/object/apply:os.system ",
    "|\n",
    ">-\n",
    "\n",
    "\t",
    "'",
    '"\\x1b[2J"',
    '"\\ud800"',
    "#",
    "%YAML 9\n",
    "---\n",
    "<<: *a",
    "~",
    ".nan",
    ".inf",
    "0x" + "f" * 5000,
    "1e999",
    "9" * 5000,
    "2001-99-99",
    "1:2:3",
    "\x00",
    "\x1b",
    "\u202e",
    "\u2028",
    "yes",
    "!!binary '!'",
    "!!set ",
    "!!omap ",
]

START_NS = 1_700_000_000_123_456_000
PACKETS = [
    Packet(START_NS + 7_000 * k, k + 1 if k % 11 else k + 40, source=f"198.18.{k % 3 + 1}.1", identification=k)
    for k in range(60)
] + [Packet(START_NS + 10**9, None, garbage=b"\xff" * 30)]
CAPTURES = {
    **{
        f"pcap {order} {unit} {link}": pcap(PACKETS, order=order, unit_ns=unit, link_type=link)
        for order, unit, link in (("<", 1000, ETHERNET), (">", 1, SLL), ("<", 1, RAW), ("<", 1, NULL), ("<", 1, LOOP))
    },
    **{
        f"pcapng {order} {unit} {link}": pcapng(PACKETS, order=order, unit_ns=unit, link_type=link)
        for order, unit, link in (("<", 1000, ETHERNET), (">", 1, SLL2))
    },
}

PARSERS: list[Callable[[str], object]] = [
    lambda text: pktgen_files.parse_thread(text),
    lambda text: pktgen_files.parse_device(text),
    lambda text: pktgen_files.parse_result(text),
    lambda text: pktgen_files.parse_version(text),
    lambda text: pktgen_files.parse_owner(text),
    lambda text: capture.parse_counts(text),
    lambda text: capture.parse_tcpdump_error(text, -9).message,
    lambda text: drops.parse_snmp(text),
    lambda text: proc_files.parse_stat(text),
    lambda text: host_activity.parse_cpu(text),
    lambda text: facts.parse_utmp(text.encode("utf-8", "replace") * 10),
    lambda text: redact_secrets(text.split(" ")),
]
PROGRAM_OUTPUTS = [
    path.read_bytes() for stage in sorted(RECORDINGS.iterdir()) for path in sorted(stage.rglob("*")) if path.is_file()
] + [
    b"tcpdump: listening on eth1, link-type EN10MB\n12 packets captured\n14 packets received by filter\n0 packets dropped by kernel\n",
    b"Ip: Forwarding DefaultTTL InReceives\nIp: 1 64 5\n",
    b"42 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n",
    b"cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8\n",
]
