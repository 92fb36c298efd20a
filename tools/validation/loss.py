"""Injected against reported loss, to the packet: each place of each platform, each frame size, each share.

The truth is the counter of whatever was made to drop, read from outside of SSH by the lab's own socket. Of labconsole's
records only what they report is taken, never an expectation.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from replaying import plan_text, replaying
from tables import NO, YES, Deadline, Table

from labconsole.lab import commands as lab
from labconsole.lab.loss_injection import LossRule, Queue, drop_by_queue, drop_share
from labconsole.lab.spec import LabSpec
from labconsole.model.design_point import FrameSize

DURATION_S = 0.5
RATE_PPS = 10_000
FRAME_SIZES_BYTES = (64, 512, 1500)
SHARES = (0.001, 0.07, 0.5, 1.0)
GUEST_RATE_PPS = 1000
"""An emulated processor forwards some thousand packets a second; this it has to forward without a loss of its own."""

GUEST_SHARES = (0.07, 0.5)
QUEUE_PACKETS = 10
SOURCE = "source_nic"
"""The hop at which a packet is offered."""

COLUMNS = (
    "platform",
    "dropped where",
    "share",
    "frame",
    "injected",
    "lost at the hop",
    "of which hop",
    "in the source",
    "lost in all",
    "unplaced",
    "exact",
)


@dataclass(frozen=True)
class Place:
    """Where packets are dropped, and the ledger's hop before which they must be missed. ``hook`` "": a queue."""

    node: str
    interface: str
    hook: Literal["ingress", "egress", ""]
    hop: str
    in_guest: bool = False

    @property
    def text(self) -> str:
        inside = "guest/" if self.in_guest else f"{self.node}/"
        return f"{inside}{self.interface} {self.hook or 'queue'}"


PLACES = {
    "raw": (
        Place("uut", "eth1", "ingress", "uut_out"),
        Place("uut", "eth5", "egress", "uut_out"),
        Place("src1", "eth1", "", SOURCE),
        Place("uut", "eth5", "", "uut_out"),
    ),
    "raw-bridge": (
        Place("uut", "eth1", "ingress", "uut_out"),
        Place("uut", "eth5", "egress", "uut_out"),
        Place("uut", "eth5", "", "uut_out"),
    ),
    "container": (
        Place("uut", "eth1", "ingress", "to_guest"),
        Place("uut", "lcvi1", "egress", "to_guest"),
        Place("uut", "eth0", "ingress", "guest_out", in_guest=True),
        Place("uut", "eth1", "egress", "guest_out", in_guest=True),
        Place("uut", "lcvo1", "ingress", "uut_out"),
        Place("uut", "eth5", "egress", "uut_out"),
        Place("uut", "lcvi1", "", "to_guest"),
    ),
}
GUESTS = ("qemu-virtio", "qemu-e1000", "qemu-vmxnet3")
GUEST_PLACES = (
    Place("uut", "eth1", "ingress", "to_guest"),
    Place("uut", "lcti1", "egress", "to_guest"),
    Place("uut", "lcto1", "ingress", "uut_out"),
    Place("uut", "eth5", "egress", "uut_out"),
)
QUICK_PLACES = {"raw": PLACES["raw"][1:2], "container": PLACES["container"][3:4]}
Pass = tuple[Place, float | None] | None
"""What is dropped while every frame size is measured once: a place and its share, None for a queue; or nothing."""


def injected_loss(deadline: Deadline, *, quick: bool) -> Table:
    """The table."""
    table = Table("1. Injected and reported loss", COLUMNS)
    with _lab("v", sources=1, link_speed_bps=None) as (name, hosts):
        for platform, places in (QUICK_PLACES if quick else PLACES).items():
            sizes, shares = (FRAME_SIZES_BYTES[:1], (0.07,)) if quick else (FRAME_SIZES_BYTES, SHARES)
            with _guarded(table, platform, deadline):
                _one_platform(table, name, hosts, platform, _passes(places, shares), sizes)
    if not quick:
        with (
            _guarded(table, "three sources", deadline),
            _lab("w", sources=3, loss={"uut/in": 0.02, "uut/out": 0.05}) as (name, hosts),
        ):
            _three_sources(table, name, hosts)
        with (
            _guarded(table, "guests under QEMU", deadline),
            _lab("q", sources=1, platforms=("raw", *GUESTS)) as (name, hosts),
        ):
            passes = _passes(GUEST_PLACES, GUEST_SHARES)
            _one_platform(table, name, hosts, "qemu-virtio", passes, (64, 1500), GUEST_RATE_PPS)
            for platform in GUESTS:
                _overloaded_guest(table, name, hosts, platform)
    packets = sum(int(number) for row in table.rows for number in row[4].split(" + ") if number)
    exact = sum(row[-1] == YES for row in table.rows)
    table.summary = (
        f"{exact} of {len(table.rows)} rows exact; {packets} packets were dropped in all, by counters that labconsole "
        "has no part in."
    )
    return table


@contextmanager
def _lab(letter: str, **options: Any) -> Iterator[tuple[str, Path]]:
    name = f"valid{os.getpid()}{letter}"
    try:
        yield name, lab.up(LabSpec(name=name, **options)).hosts_file
    finally:
        lab.down(name)


@contextmanager
def _guarded(table: Table, what: str, deadline: Deadline) -> Iterator[None]:
    """Whatever stops a part is told in the table, and the next part is done."""
    try:
        if deadline.passed:
            raise TimeoutError("no time was left")
        yield
    except Exception as exc:
        table.not_done(what, exc)


def _passes(places: tuple[Place, ...], shares: tuple[float, ...]) -> list[Pass]:
    """Nothing first, which tells what the lab loses by itself; and last, for a guest is gone after the last run."""
    passes: list[Pass] = [None]
    for place in places:
        passes += [(place, share) for share in shares] if place.hook else [(place, None)]
    return [*passes, None]


def _one_platform(
    table: Table,
    name: str,
    hosts: Path,
    platform: str,
    passes: list[Pass],
    sizes: tuple[int, ...],
    rate_pps: int = RATE_PPS,
) -> None:
    points = [_point(platform, size, rate_pps) for size in sizes]
    plan = plan_text(points, repetitions=len(passes), duration_s=DURATION_S)
    with tempfile.TemporaryDirectory() as directory, replaying(plan, hosts, Path(directory)) as runs:
        for number, each in enumerate(passes, start=1):
            loss: LossRule | Queue | None = None
            for index, size in enumerate(sizes):
                # The console is stopped here, between two runs, and goes on in next().
                if each is not None:
                    if each[1] is None and loss is not None:
                        loss.remove()  # another frame size is another rate in bit/s
                    if each[1] is None or loss is None:
                        loss = _inject(name, each[0], each[1], size, rate_pps)
                before = loss.dropped() if loss is not None else 0
                run = next(runs)
                assert (run["plan"]["point"], run["plan"]["repetition"]) == (index, number), run["plan"]
                truth = loss.dropped() - before if loss is not None else 0
                if each is None:
                    _row(table, run, "nowhere", "none", {})
                else:
                    share = "queue" if each[1] is None else f"{each[1]:g}"
                    _row(table, run, each[0].text, share, {each[0].hop: truth})
            if loss is not None:
                loss.remove()
        assert next(runs, None) is None


def _point(platform: str, size: int, rate_pps: int, **more: Any) -> dict[str, Any]:
    return {
        "platform": platform,
        "frame_size": size,
        "target": f"{round(FrameSize(size).rate_bps(rate_pps))}bit",
        **more,
    }


def _inject(name: str, place: Place, share: float | None, size: int, rate_pps: int) -> LossRule | Queue:
    if share is None:
        half_bps = round(rate_pps / 2 * 8 * (size + 14))
        return drop_by_queue(name, place.node, place.interface, half_bps, limit_packets=QUEUE_PACKETS)
    assert place.hook
    return drop_share(name, place.node, place.interface, place.hook, share, in_guest=place.in_guest)


def _three_sources(table: Table, name: str, hosts: Path) -> None:
    """What ``lab up --loss`` drops on two hops at once, by the counters that ``lab status`` shows."""
    sizes = (64, 1500)
    points = [_point("container", size, RATE_PPS, sources=3) for size in sizes]
    plan = plan_text(points, repetitions=3, duration_s=DURATION_S)
    with tempfile.TemporaryDirectory() as directory, replaying(plan, hosts, Path(directory)) as runs:
        for _ in sizes:
            next(runs)  # before the first run of a platform, learning frames met the loss too
        before = lab.read_loss_counts(name)
        for run in runs:
            after = lab.read_loss_counts(name)
            for number, stream in enumerate(run["streams"]):
                ways = {"to_guest": f"uut/eth{number + 1}", "uut_out": f"uut/eth{number + 5}"}
                truth = {
                    hop: after[port]["dropped_packets"] - before[port]["dropped_packets"] for hop, port in ways.items()
                }
                where = " and ".join(ways.values())
                _row(table, run, where, "0.02, 0.05", truth, stream=stream, label=f"{stream['name']} of 3")
            before = after


def _overloaded_guest(table: Table, name: str, hosts: Path, platform: str) -> None:
    """A guest that cannot keep up: the tap in front of it counts what it had no room for."""
    points = [{"platform": platform, "frame_size": size, "target": "max"} for size in (64, 1500)]
    plan = plan_text(points, repetitions=2, duration_s=DURATION_S)

    def tap() -> int:
        return int(lab.execute(name, "uut", ["cat", "/sys/class/net/lcti1/statistics/tx_dropped"]).stdout)

    with tempfile.TemporaryDirectory() as directory, replaying(plan, hosts, Path(directory)) as runs:
        next(runs)
        before = tap()
        for run in runs:
            if run["plan"]["repetition"] == 2 and run["plan"]["point"] == 1:
                break  # the guest is about to go
            after = tap()
            _row(table, run, "uut/lcti1, full", "overload", {"to_guest": after - before}, others_may=True)
            before = after


def _row(
    table: Table,
    run: dict[str, Any],
    where: str,
    share: str,
    truth: dict[str, int],
    *,
    stream: dict[str, Any] | None = None,
    label: str = "",
    others_may: bool = False,
) -> None:
    """One run of one stream. ``others_may``: other hops may lose packets too, which nothing counts but the ledger."""
    stream = stream or run["streams"][0]
    lost = {hop["hop"]: hop["lost_packets"] for hop in stream["ledger"] if hop["lost_packets"]}
    expected = {hop: packets for hop, packets in truth.items() if packets}
    total, unplaced, at_source = stream["loss_packets"], stream["unplaced_packets"], stream["source_lost_packets"]
    placed = {hop: lost.get(hop, 0) for hop in truth}
    status = run["verdict"]["status"]
    wrong = []
    if status == "invalid":
        wrong.append("the run is invalid: " + ", ".join(reason["code"] for reason in run["verdict"]["reasons"]))
    if not stream["offered_packets"]:
        wrong.append("nothing was offered")
    if placed != truth or (lost != expected and not others_may):
        wrong.append(f"injected {expected}, the ledger says {lost}")
    if at_source != truth.get(SOURCE, 0):
        wrong.append(f"{at_source} reported lost in the source")
    # What never left the source was not offered, and is nobody's loss.
    behind = [sum(packets for hop, packets in by_hop.items() if hop != SOURCE) for by_hop in (truth, lost)]
    if (total != behind[0] and not others_may) or total != behind[1]:
        wrong.append(f"{total} reported lost")
    if unplaced != 0:
        wrong.append(f"{unplaced} unplaced")
    table.add(
        run["requested"]["platform"] + (f", {label}" if label else ""),
        where,
        share,
        f"{run['requested']['frame_size_bytes']} B",
        _sum(truth) or 0,
        _sum(placed) or sum(lost.values()),
        " + ".join(placed) or "any",
        at_source,
        total,
        unplaced,
        NO if wrong else YES,
        failure="; ".join(wrong) or None,
    )


def _sum(counts: dict[str, int]) -> str:
    return " + ".join(str(packets) for packets in counts.values())
