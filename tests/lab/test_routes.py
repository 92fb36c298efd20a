"""Guests that forward, through the command, on a real lab: every packet accounted for, what a rule drops in one router
told for that router, routes counted back, and nothing left whatever happens.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labconsole.experiments.route.rates import build_hops
from labconsole.experiments.route.record import RouteRecord
from labconsole.experiments.route.verify import recompute_route
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.live_lab import COMMAND, labconsole, wait_until
from support.requirements import require
from support.route_lab import inside_router


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lab of one source, whose UUT has containers."""
    require("busybox", "nft", "nsenter")
    name = f"routes{os.getpid()}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("routes")))
        spec = LabSpec(name=name, sources=1, platforms=("raw", "container"), jobs=True)
        try:
            yield lab.up(spec).hosts_file
        finally:
            lab.down(name)


def told(hosts: Path, store: Path, *words: str, platform: str = "container") -> list[str]:
    asked = ["experiment", "route", "--platforms", platform, "--json", *words]
    return [*COMMAND, *asked, "--hosts", str(hosts), "--store", str(store)]


def taken(hosts: Path, store: Path, *words: str, status: int = 0) -> list[RouteRecord]:
    done = subprocess.run(told(hosts, store, *words), capture_output=True, text=True, timeout=300)
    assert done.returncode == status, done.stderr + done.stdout[:3000]
    return records(done.stdout)


def records(text: str) -> list[RouteRecord]:
    return [RouteRecord.model_validate(json.loads(line)["route"]) for line in text.splitlines()]


def stored(store: Path) -> list[RouteRecord]:
    done = labconsole("experiment", "route", "--list", "--json", store=store)
    return list(reversed(records(done.stdout)))


def on(hosts: Path, node: str, *argv: str) -> str:
    done = lab.execute(hosts.parent.name, node, list(argv))
    assert done.status == 0, done.stderr
    return done.stdout


def nothing_left(hosts: Path) -> None:
    """No router's interface, no bridge, no route, and no address that a bridge was told."""
    for node in ("uut", "snk1", "src1"):
        assert "lcg" not in on(hosts, node, "ip", "-o", "link")
        assert "proto 229" not in on(hosts, node, "ip", "route", "show", "table", "all")
        assert "02:6c:77:01" not in on(hosts, node, "bridge", "fdb", "show")


def sound(record: RouteRecord) -> None:
    """Every packet is accounted for, and everything follows from what was counted."""
    sink = record.sink
    assert sink is not None
    assert sum(each.packets for each in record.routers) + sink.other_packets == sink.captured_packets
    assert sink.nic_packets == sink.captured_packets
    assert (sink.foreign_packets, sink.dropped_packets) == (0, 0)
    assert record.in_packets == sum(each.sent_packets or 0 for each in record.routers)
    assert recompute_route(record) == []


def inside(hosts: Path, number: int, *argv: str) -> str:
    return inside_router(hosts.parent.name, number, *argv)


def during(hosts: Path, store: Path, *words: str) -> subprocess.Popen[str]:
    """A trial that has begun to send."""
    process = subprocess.Popen(told(hosts, store, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def arrived() -> int:
        assert process.poll() is None, process.stderr and process.stderr.read()
        return int(on(hosts, "snk1", "cat", "/sys/class/net/eth1/statistics/rx_packets"))

    base = arrived()
    wait_until(lambda: arrived() > base + 500, timeout_s=60, what="nothing was sent")
    return process


def test_every_packet_comes_through_routers_with_many_routes(hosts: Path, tmp_path: Path):
    found = taken(
        hosts, tmp_path / "s.sqlite", "--guests", "1,4", "--routes", "0,1000", "--targets", "8kpps", "--duration", "2"
    )
    assert [(each.requested.guests, each.requested.routes) for each in found].sort() == [
        (1, 0),
        (1, 1000),
        (4, 0),
        (4, 1000),
    ].sort()
    for record in found:
        sound(record)
        assert record.verdict.status != "invalid", record.verdict
        assert record.sum_pps == pytest.approx(8000, rel=0.01)
        for each in record.routers:
            assert each.sent_packets == each.to_packets == each.from_packets == each.packets
            assert each.routes == each.routes_after == record.requested.routes + 1
    nothing_left(hosts)


def test_a_hundred_thousand_routes_are_given_and_counted_back(hosts: Path, tmp_path: Path):
    (record,) = taken(
        hosts,
        tmp_path / "s.sqlite",
        "--routes",
        "100000",
        "--destinations",
        "4096",
        "--targets",
        "5kpps",
        "--duration",
        "2",
    )
    sound(record)
    (router,) = record.routers
    assert router.routes == 104_096
    assert router.load_s is not None
    assert router.packets == router.sent_packets
    nothing_left(hosts)


def test_traffic_goes_to_every_destination(hosts: Path, tmp_path: Path):
    """A rule in the router counts those that go to the upper half."""
    words = ("--destinations", "16", "--targets", "2kpps", "--duration", "6")
    process = during(hosts, tmp_path / "s.sqlite", *words)
    rule = "counter upper { }; chain c { type filter hook forward priority 0; ip daddr 198.19.64.8/29 counter name upper; };"
    try:
        inside(hosts, 1, "nft", f"table ip seen {{ {rule} }}")
        before = counter(hosts, 1)
        wait_until(lambda: counter(hosts, 1) > before + 800, timeout_s=5, what="the upper half gets nothing")
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    (record,) = records(out)
    sound(record)
    nothing_left(hosts)


def counter(hosts: Path, number: int) -> int:
    told = json.loads(inside(hosts, number, "nft", "-j", "list", "counters"))
    (found,) = [each["counter"]["packets"] for each in told["nftables"] if "counter" in each]
    return int(found)


def test_what_is_dropped_in_one_router_is_told_for_that_router(hosts: Path, tmp_path: Path):
    """Seven packets of a hundred, in the third of four, by a rule that counts."""
    words = ("--guests", "4", "--targets", "4kpps", "--duration", "6")
    process = during(hosts, tmp_path / "s.sqlite", *words)
    rule = "counter lost { }; chain c { type filter hook forward priority 0; numgen inc mod 100 < 7 counter name lost drop; };"
    dropped = 0
    try:
        inside(hosts, 3, "nft", f"table ip seen {{ {rule} }}")
        while process.poll() is None:
            try:
                dropped = counter(hosts, 3)
            except (AssertionError, ValueError):
                break  # it has ended
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    (record,) = records(out)
    sound(record)
    assert dropped > 100
    assert [build_hops(each).inside for each in record.routers] == [0, 0, dropped, 0]
    assert [build_hops(each).before for each in record.routers] == [0] * 4
    assert [build_hops(each).behind for each in record.routers] == [0] * 4
    assert record.verdict.status != "invalid", "loss in a router is a finding"
    shown = labconsole("experiment", "route", "--show", record.route_id, store=tmp_path / "s.sqlite").stdout
    assert re.search(r"g3 .*lost .*in it", shown)
    nothing_left(hosts)


def test_routes_that_somebody_takes_away_void_the_trial(hosts: Path, tmp_path: Path):
    store = tmp_path / "s.sqlite"
    process = during(hosts, store, "--guests", "2", "--routes", "1000", "--targets", "2kpps", "--duration", "4")
    inside(hosts, 2, "ip", "route", "flush", "proto", "229", "root", "128.0.0.0/1")
    process.communicate(timeout=120)
    first = stored(store)[0]
    assert first.status == "failed"
    (found,) = [each for each in first.verdict.reasons if each.code == "routes_missing"]
    assert found.detail.startswith("g2: it had ")
    assert "after it, of 1001" in found.detail
    nothing_left(hosts)


def test_a_router_that_dies_voids_the_trial_and_leaves_nothing(hosts: Path, tmp_path: Path):
    store = tmp_path / "s.sqlite"
    process = during(hosts, store, "--guests", "2", "--targets", "2kpps", "--duration", "5")
    on(hosts, "uut", "ip", "link", "del", "lcgi2")
    process.communicate(timeout=120)
    first = stored(store)[0]
    assert first.status == "failed"
    assert {"guests_missing", "routes_missing", "no_packets"} & {each.code for each in first.verdict.reasons}
    nothing_left(hosts)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_trial_that_is_ended_leaves_no_route(hosts: Path, tmp_path: Path, how: signal.Signals):
    process = during(
        hosts, tmp_path / "s.sqlite", "--guests", "2", "--routes", "1000", "--targets", "2kpps", "--duration", "60"
    )
    process.send_signal(how)
    process.communicate(timeout=20)
    wait_until(lambda: "lcg" not in on(hosts, "uut", "ip", "-o", "link"), timeout_s=15, what="routers are still there")
    nothing_left(hosts)


def test_filter_rules_are_there_and_cost_no_packet(hosts: Path, tmp_path: Path):
    found = taken(hosts, tmp_path / "s.sqlite", "--filters", "0,300", "--targets", "2kpps", "--duration", "2")
    for record in found:
        sound(record)
        assert record.routers[0].filters == record.requested.filters
        assert record.routers[0].packets == record.routers[0].sent_packets


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--guests", "0"), "guests"),
        (("--routes", "-1"), "routes"),
        (("--routes", "many"), "is not a list of whole numbers"),
        (("--destinations", "3"), "power of two"),
        (("--targets", "130"), "is not a packet rate"),
        (("--frame-sizes", "20"), "frame"),
        (("--duration", "0"), "duration"),
        (("--platforms", "nowhere"), "is not in the inventory"),
        (("--platforms", "raw"), "no guests that forward"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(hosts: Path, tmp_path: Path, words: Any, complaint: str):
    done = labconsole(
        "experiment", "route", "--platforms", "container", *words, hosts=hosts, store=tmp_path / "s.sqlite"
    )
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
