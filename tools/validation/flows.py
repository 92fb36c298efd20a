"""Flows out of guests of LXC, User-mode Linux and QEMU whose rates are known beforehand: what the link carries, what a
limit lets through, what a rule drops and counts, whom a rule holds back and for how long; and guests of Xen by its own
limit. Real commands on a lab.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tables import OF_GUESTS, Deadline, RowMaker, Table, measure, testbed

from labconsole.experiments.flow.limiters import CREDIT
from labconsole.experiments.flow.quantities import quantities
from labconsole.experiments.flow.rates import HEADER_BYTES
from labconsole.experiments.flow.record import FlowRecord
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.model.inventory import load_inventory
from support.live_lab import COMMAND, wait_until
from support.route_lab import processes_of_guest

PLATFORMS = ("lxc", "uml", "qemu-virtio")
SPEED_BPS = 100_000_000
LINE_MBPS = SPEED_BPS * 1472 / 1538 / 1e6
LINE_RATIO = 0.005
GUESTS = {"lxc": "1,2,4", "uml": "2,4", "qemu-virtio": "1,2,4"}
"""How many send; one guest of User-mode Linux does not fill the link."""

LIMIT_MBPS, LIMIT_RATIO = 30.0, 0.01
HIGHEST_MBPS, LOWEST_MBPS = 40.0, 25.0
WEIGHTS, WEIGHT_ERROR = ("30:1", "7:1", "1:1", "1:7", "1:30"), 0.03
STOPPED_S, KILLED_S = 3.0, 4.0
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
    return [
        *COMMAND,
        "experiment",
        "flow",
        "--hosts",
        str(hosts),
        "--store",
        str(store),
        "--platforms",
        platform,
        "--json",
        *words,
    ]


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
    rows: tuple[RowMaker, ...] = (_line, _limit, _limits, _loss, _dominance, _inward)
    wanted_here: list[tuple[str, RowMaker]] = [(p, row) for p in PLATFORMS for row in rows]
    wanted_here += [("lxc", _weights), ("lxc", _socket_full), ("lxc", _killed)]
    try:
        for spec, wanted in ((_containers(), wanted_here), (_machine(), XEN_ROWS)):
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
        table.judge(
            platform,
            record.requested.guests,
            f"the line: {LINE_MBPS:.2f} Mbit/s",
            f"{found:.2f} Mbit/s",
            f"± {error:.2f} Mbit/s",
            right=abs(found - LINE_MBPS) <= error,
        )


def _limit(table: Table, platform: str, _: str, hosts: Path) -> None:
    """Of two guests the first is held to a rate, and the second to another."""
    told = ("--guests", "2", "--limits", f"{LIMIT_MBPS:g}Mbit,40Mbit", "--offered", "50Mbit", "--duration", "6")
    (record,) = _taken(hosts, platform, *told)
    found = (record.senders[0].shared_bps or 0.0) * FRAMES / 1e6
    error = LIMIT_RATIO * LIMIT_MBPS
    table.judge(
        platform,
        2,
        f"the first limited to {LIMIT_MBPS:g} Mbit/s of frames",
        f"{found:.3f} Mbit/s",
        f"± {error:.2f} Mbit/s",
        right=abs(found - LIMIT_MBPS) <= error,
    )


def _limits(table: Table, platform: str, _: str, hosts: Path) -> None:
    """Both ends of the paper's rates: what each attains of its limit, and that the first loses nothing by the second."""
    limits = (LOWEST_MBPS, HIGHEST_MBPS)
    told = ("--guests", "2", "--limits", ",".join(f"{each:g}Mbit" for each in limits), "--offered", "60Mbit")
    (record,) = _taken(hosts, platform, *told, "--second-after", "3", "--duration", "9", "--bin", "0.5")
    found = quantities(record)
    for guest, limit_mbps in zip(("g1", "g2"), limits, strict=True):
        attained = found.attained.get(guest)
        table.judge(
            platform,
            2,
            f"{guest} limited to {limit_mbps:g} Mbit/s of frames attains 1 of it",
            "not known" if attained is None else f"{attained:.4f}",
            f"± {LIMIT_RATIO:g}",
            right=attained is not None and abs(attained - 1) <= LIMIT_RATIO,
        )
    lost = found.interference_ratio
    table.judge(
        platform,
        2,
        "by the second, which begins later, the first loses nothing of its limit",
        "not known" if lost is None else f"{lost:+.2%}",
        f"± {LIMIT_RATIO:.0%}",
        right=lost is not None and abs(lost) <= LIMIT_RATIO,
    )


def _weights(table: Table, platform: str, _: str, hosts: Path) -> None:
    """Two guests share the link by weights that change every second."""
    told = (
        "--guests",
        "2",
        "--weights",
        ",".join(WEIGHTS),
        "--weights-every",
        "1",
        "--duration",
        "5.5",
        "--bin",
        "0.1",
    )
    (record,) = _taken(hosts, platform, *told)
    for step in record.weights.steps if record.weights is not None else ():
        word, error = ":".join(map(str, step.weights)), step.error_ratio
        late_s = None if step.taken_s is None else step.taken_s - step.due_s
        table.judge(
            platform,
            2,
            f"weights {word}: shares are theirs",
            "not known"
            if error is None or late_s is None
            else f"error {error:.4f}, in force {late_s * 1e3:.1f} ms late",
            f"error {WEIGHT_ERROR:g}, 10 ms",
            right=error is not None and error <= WEIGHT_ERROR and late_s is not None and late_s <= 0.01,
        )


def _socket_full(table: Table, platform: str, name: str, hosts: Path) -> None:
    """The reader in the second of two guests is stopped while it is sent to: its socket is full, and nothing else is."""
    told = ("--pattern", "in", "--guests", "2", "--offered", "10Mbit", "--duration", "8")
    with _sending(name, hosts, platform, *told, seen=("src1", "tx_packets")) as found:
        readers = processes_of_guest(name, 2, "iperf")
        for each in readers:
            os.kill(each, signal.SIGSTOP)
        time.sleep(STOPPED_S)
        for each in readers:
            os.kill(each, signal.SIGCONT)
    free, stopped = found[-1].receivers
    places = {loss.hop: loss.packets for loss in stopped.losses if loss.packets}
    table.judge(
        platform,
        2,
        f"the second's reader is stopped for {STOPPED_S:g} s: lost at its full socket alone",
        f"{free.guest}: {free.lost_packets} lost; {stopped.guest}: {places}".replace("'", ""),
        "to the packet",
        right=bool(readers)
        and free.lost_packets == 0
        and set(places) == {"guest_socket_full"}
        and places["guest_socket_full"] == stopped.socket_full_packets == stopped.lost_packets,
    )


def _killed(table: Table, platform: str, name: str, hosts: Path) -> None:
    """All processes of the second guest are killed while it sends."""
    with _sending(name, hosts, platform, "--guests", "2", "--offered", OFFERED, "--duration", "10"):
        time.sleep(KILLED_S)
        killed = processes_of_guest(name, 2)
        for each in killed:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
    listing = [*COMMAND, "experiment", "flow", "--list", "--json", "--store", str(hosts.parent / "flows.sqlite")]
    stored = _records(subprocess.run(listing, capture_output=True, text=True, check=True).stdout)
    void = [each for each in stored if each.verdict.status == "invalid"]  # it was taken again
    codes = [reason.code for each in void for reason in each.verdict.reasons]
    left = "lcg" in lab.execute(name, "uut", ["ip", "-o", "link"]).stdout
    table.judge(
        platform,
        2,
        f"the second is killed after {KILLED_S:g} s: the trial is void, and nothing is left",
        f"{len(void)} void: {', '.join(codes)}" + (", guests are left" if left else ""),
        "one, guests_missing",
        right=bool(killed) and len(void) == 1 and "guests_missing" in codes and not left,
    )


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
    table.judge(
        platform,
        3,
        f"of the second {dropped} packets are dropped, of the others none",
        ", ".join(map(str, lost)),
        "to the packet",
        right=lost == [0, dropped, 0] and dropped > 0,
    )


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
    table.judge(
        platform,
        3,
        f"sent to: in front of the second {dropped} packets are dropped, of the others none",
        ", ".join(map(str, lost)),
        "to the packet",
        right=lost == [0, dropped, 0] and dropped > 0 and whole,
    )


def _dominance(table: Table, platform: str, name: str, hosts: Path) -> None:
    """The second guest is held to 1 Mbit/s for ten seconds: then the first has the link."""
    with _sending(name, hosts, platform, "--guests", "2", "--duration", "24", "--bin", "0.5") as found:
        time.sleep(6)
        rule = _rule(hosts, "limit rate over 125 kbytes/second burst 10 kbytes counter name met drop")
        assert lab.execute(name, "uut", ["nft", rule]).status == 0
        time.sleep(HELD_S)
        lab.execute(name, "uut", ["nft", "delete", "table", "netdev", "known"])
    longest_s = quantities(found[-1]).dominant_s or 0.0
    table.judge(
        platform,
        2,
        f"the second held to 1 Mbit/s for {HELD_S:g} s: dominance",
        f"{longest_s:.1f} s",
        f"± {HELD_ERROR_S:g} s",
        right=abs(longest_s - HELD_S) <= HELD_ERROR_S,
    )


def _credit(table: Table, platform: str, _: str, hosts: Path) -> None:
    """Of two guests of Xen each is held to a rate by the back end of its NIC, which its kernel says."""
    told = ("--guests", "2", "--limits", f"{LIMIT_MBPS:g}Mbit,20Mbit", "--offered", "50Mbit", "--duration", "6")
    (record,) = _taken(hosts, platform, *told)
    for sender, limit_mbps in zip(record.senders, (LIMIT_MBPS, 20.0), strict=True):
        found = (sender.payload_bps or 0.0) * FRAMES / 1e6
        limiter = sender.limiter
        kept = limiter is not None and limiter.kind == CREDIT and limiter.rate_bps == limit_mbps * 1e6
        table.judge(
            platform,
            2,
            f"{sender.guest} limited to {limit_mbps:g} Mbit/s of frames by its back end's credit",
            f"{found:.2f} Mbit/s",
            f"{1 - CREDIT_RATIO:g} to 1 of it, and read back",
            right=kept and (1 - CREDIT_RATIO) * limit_mbps <= found <= limit_mbps,
        )


XEN_ROWS = [("xen", _credit)]
