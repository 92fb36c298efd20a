"""Which hop a packet that the kernel dropped belongs to, and what follows when its word and the counters' differ."""

from __future__ import annotations

from typing import Any

import pytest

from labconsole.measure.drop_causes import describe_off_path_drops
from labconsole.measure.recompute.record import examine, unjudged
from labconsole.model.record.verdict_codes import WEIGHT
from labconsole.verdict.kernel_drops import find_hop, label
from labconsole.verdict.observations import CountingPoint, KernelWitness
from labconsole.wire.kernel_drops import KernelDrop, KernelDrops, KernelDropsStarted
from support.observed_trials import SENT, counters, observe, record

COUNTED: dict[str, Any] = {
    "passed_packets": 0,
    "looked_packets": 0,
    "unreadable_packets": 0,
    "unlisted_packets": 0,
    "missed_packets": 0,
    "counted_ns": 10**9,
    "ended_early": False,
}


def row(interface: str | None, packets: int, *, function: str | None = "nft_do_chain", **other: Any) -> KernelDrop:
    told = {"namespace": "", "stream": 0, "reason": "NETFILTER_DROP", **other}
    return KernelDrop(interface=interface, function=function, packets=packets, **told)


def told(seen: Any, *rows: KernelDrop, asked: str = "auto", **counted: Any) -> Any:
    """The observations with the kernel's word."""
    seen.kernel = KernelWitness(asked=asked, budget_ns=None)
    seen.kernel.started = KernelDropsStarted(mode="tp_btf", tells_reasons=True)
    seen.kernel.drops = KernelDrops(rows=list(rows), **{**COUNTED, **counted})
    return seen


def hosts(seen: Any, *rows: KernelDrop, **counted: Any) -> Any:
    """The observations with the word of the kernel below a unit under test that is a machine."""
    seen.host_kernel = KernelWitness(
        asked="on", budget_ns=None, host="below", carries={"eth1": ["nic1"], "eth5": ["nic5"]}
    )
    seen.host_kernel.started = KernelDropsStarted(mode="tp_btf", tells_reasons=True)
    seen.host_kernel.drops = KernelDrops(rows=list(rows), **{**COUNTED, **counted})
    return seen


def codes(run: Any) -> set[str]:
    return {each.code for each in run.verdict.reasons}


def ports(inventory: Any) -> tuple[str, str]:
    return inventory.streams[0].uut_in, inventory.streams[0].uut_out


def test_what_was_dropped_where_it_came_in_belongs_to_the_next_hop(inventory):
    uut_in, uut_out = ports(inventory)
    seen = observe(inventory, uut_out=SENT - 30, arrived=SENT - 30)
    run = record(
        inventory, told(seen, row(uut_in, 10), row(uut_out, 20, reason="QDISC_DROP", function="__dev_queue_xmit"))
    )
    (out,) = (hop for hop in run.streams[0].ledger if hop.hop == "uut_out")
    assert out.drops == {
        f"{uut_in}.kernel.NETFILTER_DROP@nft_do_chain": 10,
        "kernel.QDISC_DROP@__dev_queue_xmit": 20,
    }
    assert "kernel_drops_disagree" not in codes(run)
    assert run.extensions["kernel_drops"]["complete"] is True


def test_a_full_ring_belongs_to_where_the_sender_counts():
    way = [
        CountingPoint("source_nic", "src1", "", "eth1", "tx_packets"),
        CountingPoint("uut_in", "uut", "", "eth1", "rx_packets"),
        CountingPoint("to_guest", "uut", "", "lcvi1", "tx_packets"),
        CountingPoint("guest_in", "uut", "g", "eth0", "rx_packets"),
    ]
    assert find_hop(row("eth0", 1, function="veth_xmit", namespace="g"), way, "uut") is way[2]
    assert find_hop(row("eth1", 1, function="veth_xmit"), way, "uut") is way[0]


def test_what_a_full_ring_kept_out_of_the_unit_under_test_is_no_loss_of_it(inventory):
    uut_in, _ = ports(inventory)
    run = record(inventory, told(observe(inventory), row(uut_in, 50, function="veth_xmit", reason="NOT_SPECIFIED")))
    assert "kernel_drops_disagree" not in codes(run)
    assert run.streams[0].ledger[1].drops == {f"{uut_in}.kernel.NOT_SPECIFIED@veth_xmit": 50}


def test_what_a_port_that_was_down_did_not_take_in_is_no_loss_of_the_unit_under_test(inventory):
    uut_in, _ = ports(inventory)
    down = row(uut_in, 15, function="enqueue_to_backlog", reason="DEV_READY")
    run = record(inventory, told(observe(inventory), down))
    assert "kernel_drops_disagree" not in codes(run) and disputed(run) == ""
    assert run.streams[0].ledger[1].drops == {f"{uut_in}.kernel.DEV_READY@enqueue_to_backlog": 15}
    full = row(uut_in, 15, function="enqueue_to_backlog", reason="CPU_BACKLOG")  # which the port has counted
    assert "kernel_drops_disagree" in codes(record(inventory, told(observe(inventory), full)))


def test_a_full_ring_stands_under_the_end_that_has_not_received_where_no_sender_counts():
    way = [
        CountingPoint(hop, "uut", "", name, "rx_packets") for hop, name in (("uut_in", "eth1"), ("from_guest", "lcvo1"))
    ]
    assert find_hop(row("lcvo1", 1, function="veth_xmit"), way, "uut") is way[1]
    assert find_hop(row("eth1", 1), way, "uut") is way[1]
    assert find_hop(row("lcvo1", 1), way, "uut") is None
    assert label(row("eth1", 1, function=None, reason=None), way[0]) == "kernel.NOT_TOLD"


def test_what_was_dropped_inside_a_guest_did_not_come_out_of_it():
    way = [
        CountingPoint("source_nic", "src1", "", "eth1", "tx_packets"),
        CountingPoint("uut_in", "uut", "", "eth1", "rx_packets"),
        CountingPoint("to_guest", "uut", "", "lx1i", "tx_packets"),
        CountingPoint("from_guest", "uut", "", "lx1o", "rx_packets"),
    ]
    inside = row("eth0", 1, namespace="first")
    assert find_hop(inside, way, "uut") is way[3]
    assert label(inside, way[3]) == "first/eth0.kernel.NETFILTER_DROP@nft_do_chain"
    assert find_hop(row("eth0", 1, namespace="first", function="veth_xmit"), way, "uut") is way[2]
    # The sender of what is on its way out is inside, and counts nowhere.
    assert find_hop(row("lx1o", 1, function="veth_xmit"), way, "uut") is way[3]
    assert find_hop(inside, way[:3], "uut") is None


def test_more_than_was_lost_is_a_doubt(inventory):
    uut_in, _ = ports(inventory)
    run = record(inventory, told(observe(inventory, uut_out=SENT - 5, arrived=SENT - 5), row(uut_in, 6)))
    assert "kernel_drops_disagree" in codes(run)
    hidden = row(uut_in, 6, function=None)  # of a kernel that hides its functions: it may be the generator's own
    run = record(inventory, told(observe(inventory, uut_out=SENT - 5, arrived=SENT - 5), hidden))
    assert "kernel_drops_disagree" not in codes(run)


def test_the_generators_own_references_and_rows_of_nobody_are_no_loss(inventory):
    uut_in, _ = ports(inventory)
    rows = [
        row(uut_in, SENT, function="pktgen_xmit"),
        row(uut_in, 9, function="tpacket_rcv"),
        row(uut_in, 3, stream=None),
        row("br0", 2),
        row(None, 1, stream=9),
    ]
    run = record(inventory, told(observe(inventory), *rows))
    assert not any(hop.drops for hop in run.streams[0].ledger)
    kept = run.extensions["kernel_drops"]["elsewhere"]
    name = inventory.streams[0].name
    assert [(each["interface"], each["stream"], each["packets"]) for each in kept] == [
        (uut_in, None, 3),
        ("br0", name, 2),
        (None, None, 1),
    ]


def test_what_the_host_of_a_machine_dropped_never_reached_the_machines_nic_or_the_sink(inventory):
    assert ports(inventory) == ("eth1", "eth5")
    full = {"reason": "FULL_RING", "function": "tun_net_xmit"}
    seen = observe(inventory, uut_out=SENT - 40, arrived=SENT - 45)
    seen.after["uut"]["", "eth1"] = counters(rx=1 + SENT - 40, tx=2)
    run = record(inventory, hosts(told(seen, asked="on"), row("nic1", 40, **full), row("nic5", 5), row("other", 3)))
    drops = {hop.hop: (hop.lost_packets, hop.drops) for hop in run.streams[0].ledger if hop.drops}
    assert drops == {
        "uut_in": (40, {"below/nic1.kernel.FULL_RING@tun_net_xmit": 40}),
        "sink_nic": (5, {"below/nic5.kernel.NETFILTER_DROP@nft_do_chain": 5}),
    }
    assert "kernel_drops_disagree" in codes(run)  # three more than were lost
    assert disputed(run) == "" and not [each for each in unjudged(run) if "kernel_drops" in each]
    assert run.extensions["host_kernel_drops"]["node"] == "below"
    assert [each["interface"] for each in run.extensions["host_kernel_drops"]["elsewhere"]] == ["other"]
    assert describe_off_path_drops(run)[0].split(": ")[0].endswith("at below/other")


def test_what_asking_the_host_took_is_a_doubt_about_the_host(inventory):
    run = record(inventory, hosts(observe(inventory), looked_packets=100_000))
    (cost,) = (each for each in run.verdict.reasons if each.code == "tracing_cost")
    assert "the kernel of below" in cost.detail
    assert disputed(run) == ""
    assert run.extensions.keys() == {"host_kernel_drops"}


@pytest.mark.parametrize(("asked", "doubted"), [("on", True), ("auto", False)])
def test_what_was_asked_for_at_any_price_is_marked_when_it_was_dear(inventory, asked: str, doubted: bool):
    run = record(inventory, told(observe(inventory), asked=asked, looked_packets=100_000))
    assert ("tracing_cost" in codes(run)) is doubted
    assert run.extensions["kernel_drops"]["estimated_cost_ns"] == 37_000_000


def test_whose_packets_the_cost_was_for_is_told_where_they_are_not_the_units_own(inventory):
    details = []
    for looked, passed in ((1_291, 582_006), (100_000, 10)):
        run = record(inventory, told(observe(inventory), asked="on", looked_packets=looked, passed_packets=passed))
        details += [each.detail for each in run.verdict.reasons if each.code == "tracing_cost"]
        assert disputed(run) == ""
    strangers, own = details
    assert "99.5% of it for 582006 packets that were freed in other namespaces of its machine" in strangers
    assert own.endswith("of a processor")


def test_a_kernel_that_does_not_say_leaves_the_run_as_it_is(inventory):
    seen = observe(inventory)
    seen.kernel = KernelWitness(asked="auto", budget_ns=10_000_000, refused=("no_permission", "for root only"))
    run = record(inventory, seen)
    assert run.extensions["kernel_drops"]["refused"] == {"code": "no_permission", "message": "for root only"}
    assert run.verdict == record(inventory, observe(inventory)).verdict


def disputed(run: Any) -> str:
    """What verify says of the kernel's word."""
    told = [repr(each) for each in examine(run, WEIGHT)]
    return "; ".join(each for each in told if "kernel_drops" in each or "tracing_cost" in each)


def test_verify_finds_nothing_in_what_was_recorded(inventory):
    uut_in, uut_out = ports(inventory)
    lost = {"uut_out": SENT - 30, "arrived": SENT - 30}
    explained = (row(uut_in, 10), row(uut_out, 20, reason="QDISC_DROP", function="__dev_queue_xmit"))
    for seen in (
        told(observe(inventory, **lost), *explained),
        told(observe(inventory, **lost), row(uut_in, 31)),
        told(observe(inventory, **lost), row("br0", 31)),
        told(observe(inventory, **lost), row(uut_in, 31, function=None)),
        told(observe(inventory), row(uut_in, 50, function="veth_xmit", reason="NOT_SPECIFIED")),
        told(observe(inventory), row(uut_in, 3, stream=None), ended_early=True),
        told(observe(inventory), asked="on", looked_packets=100_000),
    ):
        assert disputed(record(inventory, seen)) == ""
    refused = observe(inventory)
    refused.kernel = KernelWitness(asked="auto", budget_ns=10_000_000, refused=("no_permission", "for root only"))
    run = record(inventory, refused)
    assert disputed(run) == "" and "the extension kernel_drops" not in unjudged(run)


@pytest.mark.parametrize(
    ("rows", "counted", "changes", "words"),
    [
        ((("br0", 6),), {}, {"elsewhere": ()}, "kernel_drops_disagree is present"),
        ((("br0", 5),), {}, {"elsewhere": 6}, "kernel_drops_disagree is missing"),
        ((), {"missed_packets": 1}, {"complete": True}, "extensions.kernel_drops.complete"),
        ((), {"looked_packets": 100_000}, {"asked": "on"}, "tracing_cost is missing"),
        ((("br0", 5),), {}, {"elsewhere": -1}, "extensions.kernel_drops.elsewhere"),
        ((("br0", 5),), {}, {"elsewhere": "s9"}, "is not one of the streams"),
    ],
)
def test_verify_names_what_does_not_follow(inventory, rows, counted, changes, words):
    seen = told(observe(inventory, uut_out=SENT - 5, arrived=SENT - 5), *(row(*each) for each in rows), **counted)
    run = record(inventory, seen)
    assert disputed(run) == ""
    extension = {**run.extensions["kernel_drops"], **changes}
    found = run.extensions["kernel_drops"]["elsewhere"]
    if isinstance(changes.get("elsewhere"), int):
        extension["elsewhere"] = [{**each, "packets": changes["elsewhere"]} for each in found]
    elif isinstance(changes.get("elsewhere"), str):
        extension["elsewhere"] = [{**each, "stream": changes["elsewhere"]} for each in found]
    assert words in disputed(run.model_copy(update={"extensions": {"kernel_drops": extension}}))


def test_what_was_dropped_off_the_way_is_told_to_people(inventory):
    seen = told(observe(inventory), row("br0", 2000), row(None, 1, stream=9, function="ip_error", reason=None))
    name = inventory.streams[0].name
    assert describe_off_path_drops(record(inventory, seen)) == [
        f"2\u2009000 packets of {name}, off every stream's path, at br0: kernel.NETFILTER_DROP@nft_do_chain: a firewall rule dropped it "
        "(nft list ruleset, iptables-save -c)",
        "1 test packet of no stream, off every stream's path, at an interface that is gone: kernel.NOT_TOLD@ip_error: a route "
        "forbids it (ip route: blackhole, unreachable, prohibit)",
    ]
