"""Flows out of guests of LXC, User-mode Linux and QEMU whose rates are known beforehand: what the link carries, what a
limit lets through, what a rule drops and counts, whom a rule holds back and for how long; and guests of Xen by its own
limit. Real commands on a lab.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tables import OF_GUESTS, Deadline, RowMaker, Table, measure, testbed

from labconsole.experiments.flow.figures import HEADER_BYTES
from labconsole.experiments.flow.limiters import CREDIT
from labconsole.experiments.flow.quantities import quantities
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.model.inventory import load_inventory
from labconsole.model.record.flow import FlowRecord
from support.live_lab import COMMAND, wait_until

PLATFORMS = ("lxc", "uml", "qemu-virtio")
SPEED_BPS = 100_000_000
LINE_MBPS = SPEED_BPS * 1472 / 1538 / 1e6
LINE_RATIO = 0.005
GUESTS = {"lxc": "1,2,4", "uml": "2,4", "qemu-virtio": "1,2,4"}
"""How many send; one guest of User-mode Linux does not fill the link."""

LIMIT_MBPS, LIMIT_RATIO = 30.0, 0.01
CREDIT_RATIO = 0.1
"""What Xen's back end may give less than its limit: its timer is up to a tick late in every interval of 50 ms."""

OFFERED = "10Mbit"
DROPPED_PERCENT = 7
HELD_S, HELD_ERROR_S = 10.0, 1.0
TRIAL_S = 300.0
FRAMES = (1472 + HEADER_BYTES) / 1472
SECOND_MAC = "02:6c:77:00:00:01"
_COMMON: Any = {"sources": 1, "link_speed_bps": SPEED_BPS, "jobs": True}


def _containers() -> LabSpec:
    return LabSpec(name=f"valid{os.getpid()}f", platforms=("raw", *PLATFORMS), **_COMMON)


def _machine() -> LabSpec:
    return LabSpec(name=f"valid{os.getpid()}x", platforms=("xen",), uut="machine", boot="xen", **_COMMON)


def _command(hosts: Path, platform: str, *words: str) -> list[str]:
    store = hosts.parent / "flows.sqlite"
    return [*COMMAND, "experiment", "flow", "--hosts", str(hosts), "--store", str(store), "--platforms", platform,
            "--json", *words]  # fmt: skip


def _records(said: str) -> list[FlowRecord]:
    return [FlowRecord.model_validate(json.loads(line)["flow"]) for line in said.splitlines()]


def _taken(hosts: Path, platform: str, *words: str) -> list[FlowRecord]:
    """What the command says of each trial. Raises RuntimeError for one that cannot be stood behind."""
    argv = _command(hosts, platform, *words)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TRIAL_S, check=False)
    if done.returncode:
        raise RuntimeError(f"labconsole experiment flow ended with {done.returncode}: {done.stderr[-600:]}")
    return _records(done.stdout)


@contextmanager
def _sending(
    name: str, hosts: Path, platform: str, *words: str, seen: tuple[str, str] = ("snk1", "rx_packets")
) -> Iterator[list[FlowRecord]]:
    """A trial whose guests send, as a node's counter shows; what it came to is in the list afterwards."""
    found: list[FlowRecord] = []
    process = subprocess.Popen(
        _command(hosts, platform, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

    def arrived() -> int:
        if process.poll() is not None:
            raise RuntimeError(process.stderr.read() if process.stderr is not None else "")
        return int(lab.execute(name, seen[0], ["cat", f"/sys/class/net/eth1/statistics/{seen[1]}"]).stdout)

    try:
        base = arrived()
        wait_until(lambda: arrived() > base + 200, timeout_s=120, what="nothing was sent")
        yield found
        said, _ = process.communicate(timeout=TRIAL_S)
        found += _records(said)
    finally:
        process.kill()
        process.communicate()


def flows(deadline: Deadline) -> Table:
    """One trial of each."""
    table = Table("18. Flows out of guests", OF_GUESTS)
    table.summary = (
        "On links of 100 Mbit/s, which carry 95.7 Mbit/s of payload of 1472 bytes. What a rule of nftables drops and whom it "
        "holds back is its own count and its own time; rates are those of the sink's capture. One guest of User-mode Linux alone sends less than the link carries, "
        "here some 86 Mbit/s: two have to send."
    )
    rows: tuple[RowMaker, ...] = (_line, _limit, _loss, _dominance, _inward)
    try:
        for spec, wanted in ((_containers(), [(p, row) for p in PLATFORMS for row in rows]), (_machine(), XEN_ROWS)):
            with testbed(spec) as (name, hosts):
                measure(table, deadline, wanted, name, hosts)
    except Exception as exc:
        table.not_done("flows out of guests", exc)
    return table


def _line(table: Table, platform: str, _: str, hosts: Path) -> None:
    """As many guests as there are, the link carries what it carries."""
    for record in _taken(hosts, platform, "--guests", GUESTS[platform], "--duration", "5"):
        found = (record.sum_bps or 0.0) / 1e6
        error = LINE_RATIO * LINE_MBPS
        table.judge(platform, record.requested.guests, f"the line: {LINE_MBPS:.2f} Mbit/s", f"{found:.2f} Mbit/s",
            f"± {error:.2f} Mbit/s", right=abs(found - LINE_MBPS) <= error,
        )  # fmt: skip


def _limit(table: Table, platform: str, _: str, hosts: Path) -> None:
    """Of two guests the first is held to a rate, and the second to another."""
    told = ("--guests", "2", "--limits", f"{LIMIT_MBPS:g}Mbit,40Mbit", "--offered", "50Mbit", "--duration", "6")
    (record,) = _taken(hosts, platform, *told)
    found = (record.senders[0].shared_bps or 0.0) * FRAMES / 1e6
    error = LIMIT_RATIO * LIMIT_MBPS
    table.judge(platform, 2, f"the first limited to {LIMIT_MBPS:g} Mbit/s of frames", f"{found:.3f} Mbit/s",
        f"± {error:.2f} Mbit/s", right=abs(found - LIMIT_MBPS) <= error,
    )  # fmt: skip


def _rule(hosts: Path, action: str) -> str:
    """On what leaves the UUT from the second guest."""
    port = load_inventory(hosts).streams[0].uut_out
    return (
        f"table netdev known {{ counter met {{ }}; chain out {{ type filter hook egress device {port} priority 0; "
        f"ether saddr {SECOND_MAC} udp dport 5001 {action}; }}; }}"
    )


def _counted(name: str) -> int:
    said = json.loads(lab.execute(name, "uut", ["nft", "-j", "list", "counters", "table", "netdev", "known"]).stdout)
    return next(int(each["counter"]["packets"]) for each in said["nftables"] if "counter" in each)


def _loss(table: Table, platform: str, name: str, hosts: Path) -> None:
    """Packets of the second of three guests are dropped, and counted by what drops them."""
    with _sending(name, hosts, platform, "--guests", "3", "--offered", OFFERED, "--duration", "6") as found:
        rule = _rule(hosts, f"numgen inc mod 100 < {DROPPED_PERCENT} counter name met drop")
        assert lab.execute(name, "uut", ["nft", rule]).status == 0
    dropped = _counted(name)
    lab.execute(name, "uut", ["nft", "delete", "table", "netdev", "known"])
    lost = [sender.lost_packets for sender in found[-1].senders]
    table.judge(platform, 3, f"of the second {dropped} packets are dropped, of the others none",
        ", ".join(map(str, lost)), "to the packet", right=lost == [0, dropped, 0] and dropped > 0,
    )  # fmt: skip


def _inward(table: Table, platform: str, name: str, hosts: Path) -> None:
    """Of three guests that are sent to, packets are dropped in front of the second, and counted by what drops them."""
    told = ("--pattern", "in", "--guests", "3", "--offered", "5Mbit", "--duration", "6")
    with _sending(name, hosts, platform, *told, seen=("src1", "tx_packets")) as found:
        rule = (
            "table netdev known { counter met { }; chain out { type filter hook egress device lcg2 priority 0; "
            f"udp dport 5001 numgen inc mod 100 < {DROPPED_PERCENT} counter name met drop; }}; }}"
        )
        assert lab.execute(name, "uut", ["nft", rule]).status == 0
    dropped = _counted(name)
    lab.execute(name, "uut", ["nft", "delete", "table", "netdev", "known"])
    lost = [{loss.hop: loss.packets for loss in each.losses}.get("to_guest") for each in found[-1].receivers]
    whole = all(each.unplaced_packets == 0 for each in found[-1].receivers)
    table.judge(platform, 3, f"sent to: in front of the second {dropped} packets are dropped, of the others none",
        ", ".join(map(str, lost)), "to the packet", right=lost == [0, dropped, 0] and dropped > 0 and whole,
    )  # fmt: skip


def _dominance(table: Table, platform: str, name: str, hosts: Path) -> None:
    """The second guest is held to 1 Mbit/s for ten seconds: then the first has the link."""
    with _sending(name, hosts, platform, "--guests", "2", "--duration", "24", "--bin", "0.5") as found:
        time.sleep(6)
        rule = _rule(hosts, "limit rate over 125 kbytes/second burst 10 kbytes counter name met drop")
        assert lab.execute(name, "uut", ["nft", rule]).status == 0
        time.sleep(HELD_S)
        lab.execute(name, "uut", ["nft", "delete", "table", "netdev", "known"])
    longest_s = quantities(found[-1]).dominant_s or 0.0
    table.judge(platform, 2, f"the second held to 1 Mbit/s for {HELD_S:g} s: dominance", f"{longest_s:.1f} s",
        f"± {HELD_ERROR_S:g} s", right=abs(longest_s - HELD_S) <= HELD_ERROR_S,
    )  # fmt: skip


def _credit(table: Table, platform: str, _: str, hosts: Path) -> None:
    """Of two guests of Xen each is held to a rate by the back end of its NIC, which its kernel says."""
    told = ("--guests", "2", "--limits", f"{LIMIT_MBPS:g}Mbit,20Mbit", "--offered", "50Mbit", "--duration", "6")
    (record,) = _taken(hosts, platform, *told)
    for sender, limit_mbps in zip(record.senders, (LIMIT_MBPS, 20.0), strict=True):
        found = (sender.payload_bps or 0.0) * FRAMES / 1e6
        limiter = sender.limiter
        kept = limiter is not None and limiter.kind == CREDIT and limiter.rate_bps == limit_mbps * 1e6
        table.judge(platform, 2, f"{sender.guest} limited to {limit_mbps:g} Mbit/s of frames by its back end's credit",
            f"{found:.2f} Mbit/s", f"{1 - CREDIT_RATIO:g} to 1 of it, and read back",
            right=kept and (1 - CREDIT_RATIO) * limit_mbps <= found <= limit_mbps,
        )  # fmt: skip


XEN_ROWS = [("xen", _credit)]
